//! Clients of the stores' families.
//!
//! In: a bucket, options, and what the environment says. Out: object_store's client of it, over a connection
//! of ours. The promise: options win over the environment, that over profiles; a setting that nobody knows is
//! refused by name; plain HTTP is spoken only where an endpoint says so. It asks no store.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::CloudError;
use super::address::{Address, Kind};
use super::connection::Connector;
use super::error::advice;
use super::fault::deepest;
use super::profile::Profile;
use crate::config::CloudConfig;

/// Without a byte for this long a connection is given up.
const STALL: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
/// How long a store is asked again; ours, where all others are object_store's.
const RETRY_TIMEOUT: &str = "retry_timeout";

/// A client of a bucket.
pub(super) fn client(
    address: &Address,
    config: &CloudConfig,
    connector: Connector,
) -> Result<Arc<dyn ObjectStore>, CloudError> {
    install_tls();
    let built: object_store::Result<Arc<dyn ObjectStore>> = match address.kind {
        Kind::S3 => s3(address, config, connector)?.build().map(|store| Arc::new(store) as _),
        Kind::Google => google(address, config, connector).build().map(|store| Arc::new(store) as _),
        Kind::Azure => azure(address, config, connector).build().map(|store| Arc::new(store) as _),
        Kind::Http => http(address, config, connector).build().map(|store| Arc::new(store) as _),
    };
    built.map_err(|error| CloudError::Settings {
        store: address.root.trim_end_matches('/').to_owned(),
        reason: format!("{}: {}", deepest(&error), advice(address.kind)),
    })
}

/// What `retry_timeout` says.
pub(super) fn retry_timeout(config: &CloudConfig) -> Result<Option<Duration>, CloudError> {
    let Some((_, value)) = config.options.iter().rfind(|(name, _)| name == RETRY_TIMEOUT) else {
        return Ok(None);
    };
    let seconds = value.trim_end_matches('s').parse().map(Duration::from_secs);
    seconds.map(Some).map_err(|_| CloudError::Settings {
        store: "all stores".to_owned(),
        reason: format!("{RETRY_TIMEOUT} is {value:?}, write seconds, e.g. 120s"),
    })
}

/// Refuses options that no family of stores knows.
pub(super) fn check_options(config: &CloudConfig) -> Result<(), CloudError> {
    for (name, _) in &config.options {
        let is_known = name == RETRY_TIMEOUT
            || AmazonS3ConfigKey::from_str(name).is_ok()
            || GoogleConfigKey::from_str(name).is_ok()
            || AzureConfigKey::from_str(name).is_ok();
        if !is_known {
            return Err(CloudError::UnknownOption { name: name.clone() });
        }
    }
    Ok(())
}

fn s3(address: &Address, config: &CloudConfig, connector: Connector) -> Result<AmazonS3Builder, CloudError> {
    use AmazonS3ConfigKey::{
        AccessKeyId, DefaultRegion, Endpoint, Region, S3Endpoint, SecretAccessKey, SkipSignature, Token,
        WebIdentityTokenFile,
    };
    let (mut settings, options) = (Settings::of_environment(config, "AWS_"), Settings::of_options(config));
    // Keys come in one piece from one place.
    if options.has(AccessKeyId) {
        settings.remove(Token);
    }
    let endpoint = [options.get(S3Endpoint), options.get(Endpoint)];
    let endpoint =
        endpoint.into_iter().chain([settings.get(S3Endpoint), settings.get(Endpoint)]).flatten().next();
    settings.extend(options);
    let needs_keys = !settings.has(AccessKeyId)
        && !settings.has(WebIdentityTokenFile)
        && settings.get(SkipSignature).is_none_or(|value| value == "false");
    let profile = profile(address, config, needs_keys)?;
    if needs_keys && let (Some(access), Some(secret)) = (profile.access_key, profile.secret_key) {
        settings.set(AccessKeyId, access);
        settings.set(SecretAccessKey, secret);
        profile.token.into_iter().for_each(|token| settings.set(Token, token));
    }
    if let Some(region) = settings.get(Region).or_else(|| settings.get(DefaultRegion)).or(profile.region) {
        settings.set(Region, region);
    }
    let mut client_options = client_options();
    if let Some(endpoint) = endpoint.or(profile.endpoint) {
        client_options = client_options.with_allow_http(endpoint.starts_with("http://"));
        settings.set(S3Endpoint, endpoint);
    }
    let builder = AmazonS3Builder::new()
        .with_client_options(client_options)
        .with_retry(no_retries())
        .with_http_connector(connector);
    let builder =
        settings.0.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(builder.with_bucket_name(&address.name))
}

/// What the profile of `AWS_PROFILE` says, or the default one.
fn profile(address: &Address, config: &CloudConfig, needs_keys: bool) -> Result<Profile, CloudError> {
    let said = |name: &str| config.environment.get(name);
    let read = |variable: &str, file: &str| {
        let home = said("HOME").map(|home| PathBuf::from(home).join(".aws").join(file));
        let Some(path) = said(variable).map(PathBuf::from).or(home) else { return Ok(String::new()) };
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|source| CloudError::Profile { path, source }),
        }
    };
    let credentials = read("AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
    let settings = read("AWS_CONFIG_FILE", "config")?;
    let named = said("AWS_PROFILE");
    let name = named.map_or("default", String::as_str);
    let profile = Profile::read(&credentials, &settings, name);
    let store = address.root.trim_end_matches('/').to_owned();
    let refused = |reason| CloudError::Settings { store, reason };
    if named.is_some() && !profile.is_there {
        return Err(refused(format!("AWS_PROFILE names {name:?}, which is in neither file of profiles")));
    }
    match profile.elsewhere {
        Some(setting) if needs_keys => Err(refused(format!(
            "profile {name:?} gets its keys by {setting}, which this release does not read: run `eval \"$(aws \
             configure export-credentials --profile {name} --format env)\"` first"
        ))),
        _ => Ok(profile),
    }
}

fn google(address: &Address, config: &CloudConfig, connector: Connector) -> GoogleCloudStorageBuilder {
    let mut settings = Settings::of_environment(config, "GOOGLE_");
    // As Google's own clients take it, with or without a scheme.
    if let Some(host) = config.environment.get("STORAGE_EMULATOR_HOST") {
        let url = if host.contains("://") { host.clone() } else { format!("http://{host}") };
        settings.set(GoogleConfigKey::BaseUrl, url);
        settings.set(GoogleConfigKey::SkipSignature, "true".to_owned());
    }
    settings.extend(Settings::of_options(config));
    let is_plain = settings.get(GoogleConfigKey::BaseUrl).is_some_and(|url| url.starts_with("http://"));
    let builder = GoogleCloudStorageBuilder::new()
        .with_client_options(client_options().with_allow_http(is_plain))
        .with_retry(no_retries())
        .with_http_connector(connector);
    let builder =
        settings.0.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
    builder.with_bucket_name(&address.name)
}

fn azure(address: &Address, config: &CloudConfig, connector: Connector) -> MicrosoftAzureBuilder {
    use AzureConfigKey::{AccessKey, AccountName, Endpoint, MsiEndpoint};
    let mut settings = Settings::of_environment(config, "AZURE_");
    if let Some(text) = config.environment.get("AZURE_STORAGE_CONNECTION_STRING") {
        settings.extend(connection_string(text));
    }
    // As the command line of Azure knows them.
    for (key, variable) in [
        (AccountName, "AZURE_STORAGE_ACCOUNT"),
        (AccessKey, "AZURE_STORAGE_KEY"),
        (MsiEndpoint, "IDENTITY_ENDPOINT"),
    ] {
        if let Some(value) = config.environment.get(variable).filter(|_| !settings.has(key)) {
            settings.set(key, value.clone());
        }
    }
    settings.extend(Settings::of_options(config));
    let is_plain = settings.get(Endpoint).is_some_and(|url| url.starts_with("http://"));
    let builder = MicrosoftAzureBuilder::new()
        .with_client_options(client_options().with_allow_http(is_plain))
        .with_retry(no_retries())
        .with_http_connector(connector);
    let builder =
        settings.0.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
    builder.with_url(&address.root)
}

/// What the portal of Azure shows to be copied: `AccountName=…;AccountKey=…;EndpointSuffix=…`.
fn connection_string(text: &str) -> Settings<AzureConfigKey> {
    use AzureConfigKey::{AccessKey, AccountName, Endpoint, SasKey};
    let said = |name: &str| {
        let mut pairs = text.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.find_map(|(known, value)| (known == name).then(|| value.to_owned()))
    };
    let by_suffix = || Some(format!("https://{}.blob.{}", said("AccountName")?, said("EndpointSuffix")?));
    let settings = [
        (AccountName, said("AccountName")),
        (AccessKey, said("AccountKey")),
        (SasKey, said("SharedAccessSignature")),
        (Endpoint, said("BlobEndpoint").or_else(by_suffix)),
    ];
    Settings(settings.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

fn http(address: &Address, config: &CloudConfig, connector: Connector) -> HttpBuilder {
    let is_plain = address.root.starts_with("http://");
    let builder = HttpBuilder::new()
        .with_client_options(client_options().with_allow_http(is_plain))
        .with_retry(no_retries())
        .with_http_connector(connector)
        .with_url(&address.root);
    let settings = Settings::<ClientConfigKey>::of_options(config);
    settings.0.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value))
}

/// Settings by one family's names; none is there twice.
struct Settings<K>(Vec<(K, String)>);

impl<K: FromStr + PartialEq + Copy> Settings<K> {
    fn of_environment(config: &CloudConfig, prefix: &str) -> Self {
        let variables = config.environment.iter().filter(|(name, _)| name.starts_with(prefix));
        Self::of(variables.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())))
    }

    /// Those of other families are passed over.
    fn of_options(config: &CloudConfig) -> Self {
        Self::of(config.options.iter().cloned())
    }

    fn of(named: impl Iterator<Item = (String, String)>) -> Self {
        let mut settings = Self(Vec::new());
        for (name, value) in named {
            if let Ok(key) = name.parse() {
                settings.set(key, value);
            }
        }
        settings
    }

    fn get(&self, key: K) -> Option<String> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone())
    }

    fn has(&self, key: K) -> bool {
        self.0.iter().any(|(known, _)| *known == key)
    }

    fn set(&mut self, key: K, value: String) {
        self.remove(key);
        self.0.push((key, value));
    }

    fn remove(&mut self, key: K) {
        self.0.retain(|(known, _)| *known != key);
    }

    fn extend(&mut self, others: Self) {
        others.0.into_iter().for_each(|(key, value)| self.set(key, value));
    }
}

/// A stall is what counts, not how long a large range takes.
fn client_options() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_read_timeout(STALL).with_connect_timeout(CONNECT)
}

/// The connection asks again itself.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// The HTTP client asks for the process's choice of cryptography.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Somebody's earlier choice is as good.
        let _theirs = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_names_account_key_and_endpoint() {
        let text =
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net";
        let settings = connection_string(text);
        assert_eq!(settings.get(AzureConfigKey::AccountName).as_deref(), Some("a"));
        assert_eq!(settings.get(AzureConfigKey::AccessKey).as_deref(), Some("k=="));
        assert_eq!(
            settings.get(AzureConfigKey::Endpoint).as_deref(),
            Some("https://a.blob.core.windows.net")
        );
        let settings = connection_string("BlobEndpoint=http://h/a;SharedAccessSignature=sv=1&sig=2");
        assert_eq!(settings.get(AzureConfigKey::Endpoint).as_deref(), Some("http://h/a"));
        assert_eq!(settings.get(AzureConfigKey::SasKey).as_deref(), Some("sv=1&sig=2"));
    }

    #[test]
    fn of_two_settings_of_one_name_the_later_counts() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options = vec![named("region", "a"), named("google_base_url", "x"), named("aws_region", "b")];
        let settings = Settings::of_options(&CloudConfig { options, ..CloudConfig::default() });
        assert_eq!(settings.0, [(AmazonS3ConfigKey::Region, "b".to_owned())]);
    }
}
