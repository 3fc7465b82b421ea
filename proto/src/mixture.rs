//! Several datasets fed as one, each by its weight.
//!
//! In: the part of a feed command that says so. Out: datasets in the order of their names, whatever order they
//! were said in, and when an epoch ends. The promise: what cannot be a mixture of any datasets is refused here.

use std::collections::BTreeMap;
use std::fmt;

use crate::feed::{invalid, parse_or};
use crate::{Error, MixtureComponent};

/// More datasets than this have no room in a batch; their lanes stay below [`MAX_LANES`](crate::feed::MAX_LANES).
pub const MAX_COMPONENTS: usize = 64;

/// Datasets and their weights, and when an epoch of them ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixture {
    /// In the order of names, which differ; at least one.
    pub components: Vec<Component>,
    pub exhausted: Exhausted,
}

/// One dataset of a mixture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub dataset: String,
    pub weight: Weight,
}

/// Finite and above zero; what counts is its share of the sum of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weight(f64);

/// No weight is NaN.
impl Eq for Weight {}

/// When an epoch of a mixture ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// With the first dataset that is used up.
    First,
    /// Once all have been; the others have begun anew by then.
    All,
}

impl Weight {
    /// `None` for what is no weight.
    pub fn new(weight: f64) -> Option<Self> {
        (weight.is_finite() && weight > 0.0).then_some(Self(weight))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Mixture {
    /// `None` where the command says nothing of a mixture.
    pub(crate) fn resolve(said: &[MixtureComponent], exhausted: Option<&str>) -> Result<Option<Self>, Error> {
        if said.is_empty() {
            let Some(word) = exhausted else { return Ok(None) };
            return Err(invalid(format!(
                "exhausted is \"{word}\" but the feed is no mixture: leave it out, or name datasets in mixture"
            )));
        }
        if said.len() > MAX_COMPONENTS {
            return Err(invalid(format!(
                "the mixture has {} datasets: mix at most {MAX_COMPONENTS}, or serve some of them as one dataset",
                said.len()
            )));
        }
        let exhausted = parse_or(exhausted, Exhausted::First)?;
        let mut weights = BTreeMap::new();
        for MixtureComponent { dataset, weight } in said {
            if dataset.is_empty() {
                return Err(invalid("a dataset of the mixture has no name: set \"dataset\" and \"weight\""));
            }
            let weight = Weight::new(*weight).ok_or_else(|| {
                invalid(format!(
                    "the weight of dataset \"{dataset}\" is {weight}: give a number above 0, or leave the dataset out"
                ))
            })?;
            if weights.insert(dataset.clone(), weight).is_some() {
                return Err(invalid(format!(
                    "dataset \"{dataset}\" is in the mixture twice: name it once, with its whole weight"
                )));
            }
        }
        let components = weights.into_iter().map(|(dataset, weight)| Component { dataset, weight });
        Ok(Some(Self { components: components.collect(), exhausted }))
    }

    /// What logs and metrics call it: the datasets' names with `+` in between.
    pub(crate) fn name(&self) -> String {
        let names: Vec<&str> = self.components.iter().map(|component| component.dataset.as_str()).collect();
        names.join("+")
    }

    pub(crate) fn to_command(&self) -> Vec<MixtureComponent> {
        let said = self.components.iter().map(|Component { dataset, weight }| MixtureComponent {
            dataset: dataset.clone(),
            weight: weight.get(),
        });
        said.collect()
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::All => "all",
        })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::FeedRequest;

    fn refusal(json: &str) -> String {
        FeedRequest::parse(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn json_and_protobuf_say_the_same_in_whatever_order() {
        let json =
            br#"{"mixture":[{"dataset":"web","weight":7},{"dataset":"books","weight":3}],"exhausted":"all"}"#;
        let request = FeedRequest::parse(json).unwrap();
        let mixture = request.feed.mixture.as_ref().unwrap();
        let said: Vec<_> = mixture.components.iter().map(|c| (c.dataset.as_str(), c.weight.get())).collect();
        assert_eq!((said, mixture.exhausted), (vec![("books", 3.0), ("web", 7.0)], Exhausted::All));
        assert_eq!(request.feed.dataset, "books+web");
        let command = request.to_command();
        assert_eq!(FeedRequest::parse(&command.encode_to_vec()).unwrap(), request);
        assert_eq!(FeedRequest::parse(&serde_json::to_vec(&command).unwrap()).unwrap(), request);
        let other =
            br#"{"mixture":[{"dataset":"books","weight":3},{"dataset":"web","weight":7}],"exhausted":"all"}"#;
        assert_eq!(FeedRequest::parse(other).unwrap(), request);
    }

    #[test]
    fn what_is_no_mixture_is_refused_in_words() {
        let two = |more: &str| {
            refusal(&format!(
                r#"{{"mixture":[{{"dataset":"a","weight":1}},{{"dataset":"b","weight":2}}]{more}}}"#
            ))
        };
        assert!(two(r#","dataset":"a""#).contains("both said"));
        assert!(two(r#","remainder":"pad""#).contains("comes in the next"));
        assert!(two(r#","exhausted":"last""#).contains(r#"use "first", "all""#));
        let one = |component: &str| refusal(&format!(r#"{{"mixture":[{component}]}}"#));
        assert!(one(r#"{"dataset":"a"}"#).contains("is 0: give a number above 0"));
        assert!(one(r#"{"dataset":"a","weight":-1}"#).contains("is -1"));
        assert!(one(r#"{"weight":1}"#).contains("has no name"));
        assert!(one(r#"{"dataset":"a","wait":1}"#).contains("wait"));
        assert!(
            one(r#"{"dataset":"a","weight":1},{"dataset":"a","weight":1}"#)
                .contains("is in the mixture twice")
        );
        let many: Vec<_> =
            (0..=MAX_COMPONENTS).map(|i| format!(r#"{{"dataset":"{i}","weight":1}}"#)).collect();
        assert!(one(&many.join(",")).contains("has 65 datasets: mix at most 64"));
        assert!(refusal(r#"{"dataset":"a","exhausted":"all"}"#).contains("is no mixture"));
        let infinite = MixtureComponent { dataset: "a".into(), weight: f64::INFINITY };
        assert!(Mixture::resolve(&[infinite], None).unwrap_err().message.contains("is inf"));
    }
}
