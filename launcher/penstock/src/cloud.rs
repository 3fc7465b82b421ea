//! How object stores are reached, for every command that reads datasets.
//!
//! In: options. Out: their configuration over what the environment says. It knows no store.

use anyhow::Context as _;
use penstock_gateway::config::{CloudConfig, ConfigFile};
use penstock_gateway::store::cloud::check;

/// Options of whoever reads `s3://`, `gs://`, `az://` and `https://` URIs.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Object stores")]
pub(crate) struct CloudOptions {
    /// A setting by object_store's own name, e.g. aws_endpoint=http://minio:9000 or aws_skip_signature=true for
    /// a public bucket; wins over AWS_…, GOOGLE_… and AZURE_… variables and over profiles. May be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    store_option: Vec<String>,
}

impl CloudOptions {
    /// Flags over file over environment.
    pub(crate) fn resolve(self, file: &ConfigFile) -> anyhow::Result<CloudConfig> {
        let mut config = CloudConfig::from_environment();
        // Of two settings of one name the later counts.
        config.options = file.store_options.clone().into_iter().collect();
        for text in &self.store_option {
            let (name, value) = text
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                // Without the text, which may be a secret.
                .context("--store-option is no setting: write NAME=VALUE, e.g. aws_region=eu-west-1")?;
            config.options.push((name.to_owned(), value.to_owned()));
        }
        check(&config)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(options: &[&str]) -> anyhow::Result<CloudConfig> {
        let store_option = options.iter().map(|&option| option.to_owned()).collect();
        let file = ConfigFile {
            store_options: [("aws_region".to_owned(), "a".to_owned())].into(),
            ..ConfigFile::default()
        };
        CloudOptions { store_option }.resolve(&file)
    }

    #[test]
    fn flags_come_after_the_file() {
        let config = resolve(&["aws_region=b", "azure_storage_sas_key=x=y"]).unwrap();
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected =
            [named("aws_region", "a"), named("aws_region", "b"), named("azure_storage_sas_key", "x=y")];
        assert_eq!(config.options, expected);
    }

    #[test]
    fn what_no_store_knows_is_refused_by_name_and_never_with_its_value() {
        let error = resolve(&["aws_nothing=secret"]).unwrap_err().to_string();
        assert!(error.contains("\"aws_nothing\"") && !error.contains("secret"), "{error}");
        let error = resolve(&["secret"]).unwrap_err().to_string();
        assert!(error.contains("NAME=VALUE") && !error.contains("secret"), "{error}");
    }
}
