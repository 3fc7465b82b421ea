use std::fmt::Write as _;

use crate::job::{Draft, Job, foreign};

/// A whole manifest, of which a test replaces parts.
const MANIFEST: &str = r#"apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist, namespace: ml}
spec:
  runPolicy: {cleanPodPolicy: None, backoffLimit: 2, activeDeadlineSeconds: 3600, ttlSecondsAfterFinished: 60}
  tfReplicaSpecs:
    PS:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: tensorflow
            image: mnist:1
            command: [python, /opt/mnist.py, --role=ps]
    Worker:
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          nodeSelector: {gpu: a100}
          containers:
          - name: tensorflow
            image: mnist:1
            command: [python3, -u, /opt/mnist.py]
            args: ["--data=$(DATA)", $$(DATA), $(UNKNOWN)]
            env:
            - {name: ROOT, value: /mnt}
            - {name: DATA, value: $(ROOT)/data}
            - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            resources:
              limits: {nvidia.com/gpu: 1, memory: 4Gi}
              requests: {cpu: 500m, memory: 1Gi}
            ports: [{containerPort: 2222, name: tfjob-port}]
"#;

/// The job of a manifest in a few lines, or the one line that refuses it.
fn shown(manifest: &str) -> String {
    let read = foreign::parse_file(manifest, std::path::Path::new("/jobs"))
        .and_then(|(draft, _)| Ok((draft.notes.clone(), resolve(draft)?)));
    let (notes, job) = match read {
        Ok(read) => read,
        Err(refusal) => {
            assert_eq!(refusal.lines().count(), 1, "one line: {refusal}");
            return refusal;
        }
    };
    let mut shown = format!(
        "{} workers {} ps {} chief {} evaluator {} {:?} {:?} {}\n",
        job.name,
        job.num_workers,
        job.num_ps,
        job.chief,
        job.evaluator,
        job.success_policy,
        job.timeout,
        job.max_restarts
    );
    for (role, own) in &job.roles {
        let (program, args) = job.command(*role);
        let policy = own.restart_policy.unwrap();
        writeln!(shown, "{}: {program:?} {args:?} {:?} {policy}", role.name(), own.env).unwrap();
    }
    shown + &notes.join("\n")
}

fn resolve(draft: Draft) -> Result<Job, String> {
    Job::resolve(draft).map_err(|error| error.to_string())
}

fn check(manifest: &str, expected: &str) {
    let shown = shown(manifest);
    assert!(shown.contains(expected), "expected {expected:?} in:\n{shown}");
}

#[test]
fn a_manifest_becomes_a_job() {
    assert_eq!(
        shown(MANIFEST),
        r#"mnist workers 2 ps 1 chief false evaluator false Chief Some(3600s) 2
worker: Script("/opt/mnist.py") ["--data=/mnt/data", "$(DATA)", "$(UNKNOWN)"] {"DATA": "/mnt/data", "ROOT": "/mnt"} ExitCode
ps: Script("/opt/mnist.py") ["--role=ps"] {} OnFailure
ignored: ttlSecondsAfterFinished, containers.image, template.spec.nodeSelector, the variable POD of Worker (valueFrom), which have no meaning without pods"#
    );
    let (draft, _) = foreign::parse_file(MANIFEST, std::path::Path::new("")).unwrap();
    let resources = draft.roles[&crate::topology::Role::Worker].resources;
    assert_eq!(
        format!("{resources:?}"),
        "Resources { memory_bytes: Some(4294967296), vcores: Some(1), gpus: Some(1) }"
    );
}

#[test]
fn a_master_is_a_chief_and_other_documents_are_noted() {
    let master = MANIFEST
        .replace("    PS:\n", "    Master:\n")
        .replace("  runPolicy", "  successPolicy: AllWorkers\n  runPolicy");
    check(&master, "mnist workers 2 ps 0 chief true evaluator false AllWorkers");
    let with_volume = format!("apiVersion: v1\nkind: PersistentVolumeClaim\n---\n{MANIFEST}");
    check(&with_volume, "ignored: PersistentVolumeClaim, ");
    check(
        &MANIFEST.replace("            command: [python, /opt/mnist.py, --role=ps]\n", ""),
        "the program of PS's image",
    );
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line() {
    let with = |from: &str, to: &str| MANIFEST.replace(from, to);
    check(
        &with("org/v1\n", "org/v1beta2\n"),
        "line 1: a TFJob of apiVersion \"kubeflow.org/v1beta2\" is not read here: write it as kubeflow.org/v1",
    );
    check(
        &with("kind: TFJob", "kind: PyTorchJob"),
        "it holds PyTorchJob, and of Kubernetes' kinds only TFJob",
    );
    check(&format!("{MANIFEST}---\n{MANIFEST}"), "a second TFJob begins here");
    check(
        &with("    Worker:", "    Workers:"),
        "line 16: \"Workers\" is no replica type of a TFJob, did you mean Worker?",
    );
    check(&with("    Worker:", "    Chef:"), "did you mean Chief?");
    check(&with("replicas: 2", "replicas: two"), "line 17: replicas is \"two\", which is no whole number");
    check(
        &with("replicas: 2", "replcas: 2"),
        "line 17: a TFJob has no key \"replcas\" here, did you mean replicas?",
    );
    check(&with("ExitCode", "Sometimes"), "line 18: \"Sometimes\" is no restart policy");
    check(
        &with(
            "name: tensorflow\n            image: mnist:1\n            command: [python3",
            "name: main\n            command: [python3",
        ),
        "no container of Worker is called tensorflow",
    );
    check(
        &with("    PS:\n      replicas: 1", "    Evaluator:\n      replicas: 2"),
        "2 tasks of role evaluator cannot be started",
    );
    check(
        &with("    PS:", "    Chief:").replace("    Worker:", "    Master:"),
        "chief is there twice, Master and Chief being one",
    );
    check(
        &with("  runPolicy", "  successPolicy: Some\n  runPolicy"),
        "\"Some\" is no success policy of a TFJob",
    );
    check(&with("memory: 4Gi", "memory: lots"), "\"lots\" is no amount of memory");
    let ps_alone: String = MANIFEST.split("    Worker:").next().unwrap().to_owned();
    check(&ps_alone, "1 parameter servers would have nobody to serve");
    check("apiVersion: kubeflow.org/v1\nkind: TFJob\nspec: {}", "line 3: the TFJob has no tfReplicaSpecs");
}
