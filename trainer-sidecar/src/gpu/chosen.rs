//! Which GPUs a trainer uses. Pure.

/// GPUs as `CUDA_VISIBLE_DEVICES` names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    /// Nothing was said: CUDA takes all.
    All,
    These(Vec<Name>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    /// Counted as the driver does, which is by the bus.
    Index(u32),
    /// `GPU-…`, or as much of it as is like no other's.
    Uuid(String),
}

impl Chosen {
    /// As CUDA reads it: the list ends before the first name that is none.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let Some(text) = text else { return Self::All };
        let name = |text: &str| match text.parse() {
            Ok(index) => Some(Name::Index(index)),
            Err(_) => text.starts_with("GPU-").then(|| Name::Uuid(text.to_owned())),
        };
        Self::These(text.split(',').map(str::trim).map_while(name).collect())
    }

    /// Whether a GPU is one of them.
    pub(super) fn has(&self, index: u32, uuid: Option<&str>) -> bool {
        let is = |name: &Name| match name {
            Name::Index(named) => *named == index,
            Name::Uuid(named) => uuid.is_some_and(|uuid| uuid.starts_with(named)),
        };
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(is),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_as_cuda_reads_it() {
        let chosen = |text, index, uuid| Chosen::parse(text).has(index, uuid);
        assert!(chosen(None, 7, None));
        assert!(!chosen(Some(""), 0, None));
        assert!(!chosen(Some("-1"), 0, None));
        assert!(chosen(Some("0, 2"), 2, None) && !chosen(Some("0, 2"), 1, None));
        assert!(!chosen(Some("0,-1,2"), 2, None), "what follows a name that is none is not seen");
        assert!(chosen(Some("GPU-8932f937"), 3, Some("GPU-8932f937-d72c")));
        assert!(!chosen(Some("GPU-8932f937"), 3, Some("GPU-8932f938-d72c")));
    }
}
