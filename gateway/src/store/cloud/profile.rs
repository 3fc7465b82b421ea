//! Profiles of the AWS command line, which object_store does not read.
//!
//! In: the texts of `~/.aws/credentials` and `~/.aws/config`, and a profile's name. Out: what it says of keys,
//! region and endpoint. The promise: a profile whose keys come in a way that is not read here is refused, not
//! taken for one without keys. It opens no file.

/// What a profile says.
#[derive(Default, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) access_key: Option<String>,
    pub(super) secret_key: Option<String>,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
    /// A setting by which keys come in another way.
    pub(super) elsewhere: Option<&'static str>,
    /// Whether either file names it.
    pub(super) is_there: bool,
}

/// Ways to keys that the AWS tools know beside the keys themselves.
const ELSEWHERE: [&str; 5] =
    ["sso_session", "sso_start_url", "credential_process", "role_arn", "credential_source"];

impl Profile {
    /// What `credentials` says wins.
    pub(super) fn read(credentials: &str, config: &str, name: &str) -> Self {
        let mut profile = Self::default();
        let in_config = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        for (text, section) in [(config, in_config.as_str()), (credentials, name)] {
            profile.add(text, section);
        }
        if profile.access_key.is_some() && profile.secret_key.is_some() {
            profile.elsewhere = None;
        }
        profile
    }

    fn add(&mut self, text: &str, section: &str) {
        let mut is_in = false;
        for line in text.lines() {
            // What is indented belongs to a setting before, e.g. those of `s3 =`.
            if line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            if let Some(header) = line.trim().strip_prefix('[') {
                let header = header.split(']').next().unwrap_or_default();
                is_in = header.split_whitespace().eq(section.split_whitespace());
                self.is_there |= is_in;
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| is_in) else { continue };
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => self.access_key = value,
                "aws_secret_access_key" => self.secret_key = value,
                "aws_session_token" => self.token = value,
                "region" => self.region = value,
                "endpoint_url" => self.endpoint = value,
                name => {
                    let known = ELSEWHERE.into_iter().find(|&known| known == name);
                    self.elsewhere = self.elsewhere.or(known);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
[default]
region = eu-west-1
s3 =
  endpoint_url = http://not-this
# region = nowhere

[profile lab]
region=us-west-2
endpoint_url = http://minio:9000
[profile  corp ]
sso_session = corp
[sso-session corp]
region = us-east-1
";
    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = A
aws_secret_access_key = s=e=c
[lab]
aws_access_key_id=B
aws_secret_access_key=t
aws_session_token = u
";

    #[test]
    fn both_files_make_a_profile() {
        let read = |name| Profile::read(CREDENTIALS, CONFIG, name);
        let default = read("default");
        assert_eq!(default.access_key.as_deref(), Some("A"));
        assert_eq!(default.secret_key.as_deref(), Some("s=e=c"));
        assert_eq!((default.region.as_deref(), &default.endpoint), (Some("eu-west-1"), &None));
        let lab = read("lab");
        assert_eq!(lab.token.as_deref(), Some("u"));
        assert_eq!(lab.endpoint.as_deref(), Some("http://minio:9000"));
        assert_eq!(lab.elsewhere, None);
        assert_eq!(read("corp").elsewhere, Some("sso_session"));
        assert!(read("corp").is_there && !read("absent").is_there);
    }
}
