//! `penstock init`: a job file to begin with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use penstock_launcher::job::{TEMPLATE, schema};

/// Beside the job file, where its first line says that it is.
const SCHEMA: &str = "penstock-job.schema.json";

/// Write a commented job file, and beside it the schema by which editors know its keys.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file; one that is there already is not written over.
    #[arg(default_value = "job.yaml")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    match std::fs::File::create_new(&args.file) {
        Ok(mut file) => {
            file.write_all(TEMPLATE.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{shown} is there already: name another file, or remove it first")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    }
    // Always this version's: nobody writes a schema by hand.
    let place = args.file.parent().unwrap_or(Path::new("")).join(SCHEMA);
    let text = serde_json::to_string_pretty(&schema())? + "\n";
    std::fs::write(&place, text).with_context(|| format!("cannot write {}", place.display()))?;
    writeln!(std::io::stdout().lock(), "{shown}\nrun it: penstock run --file {shown}")?;
    Ok(ExitCode::SUCCESS)
}
