//! What the unit tests of this crate have in common: small scenarios and what was seen in them.

use crate::FormError;
use crate::outcome::{Cause, Change};
use crate::scenario::Scenario;

/// A scenario about pods with these further members, such as `"runForMs": 1000, "server": []`.
pub(crate) fn scenario(members: &str) -> Result<Scenario, FormError> {
    Scenario::from_str(&format!(
        r#"{{"name": "n", "seed": 1, {members},
            "resource": {{"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true}}}}"#
    ))
}

/// A scenario that runs for a second against this server.
pub(crate) fn served(server: &str) -> Scenario {
    scenario(&format!(r#""runForMs": 1000, "server": {server}"#)).unwrap()
}

/// A change of an object of uid `u`: of the first list without an `old` version, of the watch with one.
pub(crate) fn change(key: &str, version: &str, old: Option<&str>) -> Change {
    Change {
        key: key.into(),
        uid: "u".into(),
        resource_version: version.into(),
        old_resource_version: old.map(Into::into),
        initial: old.is_none(),
        cause: if old.is_none() { Cause::List } else { Cause::Watch },
        final_state_known: true,
    }
}

/// Names and values of a query or of headers.
pub(crate) fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
