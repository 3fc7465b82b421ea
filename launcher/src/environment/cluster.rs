//! Who is where, as JSON and as lists.

use serde_json::{Map, Value, json};

use super::Wiring;
use crate::topology::{Role, TaskId};

/// `{"ps": ["HOST:PORT"], "worker": [...]}` of these tasks.
pub(super) fn spec(members: impl Iterator<Item = TaskId>, wiring: &Wiring) -> Value {
    let mut cluster = Map::new();
    for member in members {
        let address = wiring.addresses.get(&member).cloned().unwrap_or_default();
        let members = cluster.entry(member.role.name()).or_insert_with(|| json!([]));
        if let Value::Array(members) = members {
            members.push(address.into());
        }
    }
    Value::Object(cluster)
}

/// Addresses of a role's tasks, with commas between.
pub(super) fn hosts(role: Role, wiring: &Wiring) -> String {
    let of_role = wiring.addresses.iter().filter(|(task, _)| task.role == role);
    of_role.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
}

/// `HOST:PORT` in two.
pub(super) fn split(address: &str) -> (&str, &str) {
    address.rsplit_once(':').unwrap_or((address, ""))
}
