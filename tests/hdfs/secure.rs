//! An HDFS with Kerberos, data encrypted on its way, and erasure-coded files.
//!
//! Kerberos reads its configuration from the environment once, so every story is told by a child: this
//! binary again, with one ignored test and an environment of its own.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use penstock_gateway::config::HdfsConfig;
use penstock_proto::Code;
use penstock_tests::hdfs::Bed;

use crate::served::{LARGE, LONG, SMALL_BLOCKS, Served, assert_whole, config, dataset, put, refusal};

#[test]
fn who_asks_must_prove_it_and_erasure_coded_files_are_read() {
    let Some(mut bed) = Bed::start(&[&["--kerberos", "--erasure-coding"], SMALL_BLOCKS].concat()) else {
        return;
    };
    put(&mut bed, LARGE, "/data");
    put(&mut bed, LARGE, "/ec/data");
    put(&mut bed, LARGE, "/private");
    bed.command("owner alice 700 /private");

    let (keytab, tokens) = (bed.says("keytab").to_owned(), bed.says("tokens").to_owned());
    let absent = bed.scratch().join("no tickets");
    let cache = format!("FILE:{}", bed.scratch().join("tickets").display());
    // A key server that takes connections and says nothing.
    let silence = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_conf = bed.scratch().join("silent.conf");
    let port = silence.local_addr().unwrap().port();
    let realm = format!(
        "[libdefaults]\ndefault_realm = EXAMPLE.COM\nudp_preference_limit = 1\n[realms]\nEXAMPLE.COM = {{\nkdc = 127.0.0.1:{port}\n}}\n"
    );
    std::fs::write(&silent_conf, realm).unwrap();
    let silent_conf = silent_conf.to_str().unwrap();
    let run = |story: &str, environment: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &format!("secure::child::{story}"), "--ignored", "--nocapture"]);
        child.env("KRB5_CONFIG", bed.says("krb5_conf")).env("KRB5CCNAME", &absent);
        child.env("URI", bed.uri()).env("CONF", bed.conf()).env("PRINCIPAL", bed.says("principal"));
        child.envs(environment.iter().copied());
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{story}: {text}{errors}");
    };
    run("a_keytab_is_enough", &[("KEYTAB", &keytab)]);
    run("tickets_of_the_process_are_taken", &[("KRB5_CLIENT_KTNAME", &keytab), ("KRB5CCNAME", &cache)]);
    run("a_token_is_enough", &[("HADOOP_TOKEN_FILE_LOCATION", &tokens)]);
    run("another_user_is_asked_for", &[("KEYTAB", &keytab)]);
    run("the_environment_names_another_user", &[("KEYTAB", &keytab), ("HADOOP_PROXY_USER", "alice")]);
    run("a_silent_key_server_hangs_nothing", &[("KEYTAB", &keytab), ("KRB5_CONFIG", silent_conf)]);
    run("a_stranger_is_told_what_to_check", &[]);
}

/// The stories that a child tells.
mod child {
    use super::*;

    fn said(name: &str) -> String {
        std::env::var(name).unwrap()
    }

    fn uri(path: &str) -> String {
        format!("{}{path}", said("URI"))
    }

    fn plain() -> HdfsConfig {
        config(said("CONF").as_ref(), &[])
    }

    fn with_keytab() -> HdfsConfig {
        HdfsConfig { principal: Some(said("PRINCIPAL")), keytab: Some(said("KEYTAB").into()), ..plain() }
    }

    async fn reads_whole(path: &str, hdfs: HdfsConfig) {
        let served = Served::new(&uri(path), hdfs).await;
        assert_whole(&served.epoch(2).await.unwrap(), LARGE);
        served.end().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn a_keytab_is_enough() {
        reads_whole("/data", with_keytab()).await;
        reads_whole("/ec/data", with_keytab()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn tickets_of_the_process_are_taken() {
        reads_whole("/data", plain()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn a_token_is_enough() {
        reads_whole("/data", plain()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn another_user_is_asked_for() {
        let error = refusal(&dataset(&uri("/private"), &with_keytab()), LONG).await;
        assert_eq!(error.code, Code::BadFile, "{}", error.message);
        assert!(error.message.contains("may not be read"), "{}", error.message);
        reads_whole("/private", HdfsConfig { user: Some("alice".to_owned()), ..with_keytab() }).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn the_environment_names_another_user() {
        reads_whole("/private", with_keytab()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn a_silent_key_server_hangs_nothing() {
        let error = refusal(&dataset(&uri("/data"), &with_keytab()), Duration::from_secs(30)).await;
        assert_eq!(error.code, Code::StoreUnavailable, "{}", error.message);
        assert!(error.message.contains("silent for"), "{}", error.message);
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "run by its parent"]
    async fn a_stranger_is_told_what_to_check() {
        let error = refusal(&dataset(&uri("/data"), &plain()), LONG).await;
        for said in ["does not accept who is asking", "klist", "keytab", "HADOOP_TOKEN_FILE_LOCATION"] {
            assert!(error.message.contains(said), "{}", error.message);
        }
    }
}
