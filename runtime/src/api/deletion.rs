//! [`Deletion`]: what the server says of an object that it was asked to delete.
//!
//! ```text
//! the answer                                     the object
//! Status "Success", with the uid in its details  is gone
//! the object, without a deletionTimestamp        is gone, and this was its last state
//! the object, its grace period 0, no finalizer   is gone, and this was its last state
//! the object, marked in any other way            is still there, and waits
//! anything, with the code 202                    is still there, and waits
//! ```
//!
//! Which form comes is the choice of the resource: most answer with a Status; Pods, Services, service accounts, volumes and
//! their claims, namespaces and definitions with the object.

use informer_core::wire::Status;
use informer_core::{Uid, Version};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// The code of an answer that promises what is not done yet.
const ACCEPTED: u16 = 202;

/// What came of a deletion that the server took.
///
/// To read on as if the cache had it already, give it to [`OwnWrites::answered`](crate::own_writes::OwnWrites::answered).
#[derive(Clone, PartialEq, Eq)]
#[must_use = "an object that waits for its finalizers or a grace period is still there"]
pub struct Deletion<T> {
    waits: bool,
    finalizers: Vec<String>,
    grace_period: Option<Duration>,
    uid: Option<Uid>,
    version: Option<Version>,
    object: Option<T>,
}

impl<T> Deletion<T> {
    /// Reads the body of an answer with a code of 2xx; `decode` makes the object of it. `None` if it is neither an object nor
    /// a Status.
    ///
    /// An object that `decode` refuses is deleted all the same: everything but [`object`](Self::object) is known of it.
    pub(super) fn read<'a, E>(
        code: u16,
        body: &'a [u8],
        decode: impl FnOnce(&'a [u8]) -> Result<T, E>,
    ) -> Option<Result<Self, Status>> {
        let answer: Answer = serde_json::from_slice(body).ok()?;
        if answer.kind == "Status" && answer.api_version == "v1" {
            if answer.status.as_str() == Some("Failure") {
                return Some(Err(Status::from_response(code, body)));
            }
            let uid = answer.details.and_then(|details| details.uid).filter(|uid| !uid.is_empty());
            let uid = uid.map(|uid| Uid::new(&uid));
            let waits = code == ACCEPTED;
            let (finalizers, grace_period) = (Vec::new(), None);
            return Some(Ok(Deletion { waits, finalizers, grace_period, uid, version: None, object: None }));
        }
        let meta = answer.metadata?;
        let finalizers = meta.finalizers.unwrap_or_default();
        let seconds = meta.deletion_grace_period_seconds;
        let held = !finalizers.is_empty() || seconds != Some(0);
        let waits = code == ACCEPTED || meta.deletion_timestamp.is_some() && held;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&seconds| waits && seconds > 0);
        Some(Ok(Deletion {
            waits,
            finalizers: if waits { finalizers } else { Vec::new() },
            grace_period: seconds.map(Duration::from_secs),
            uid: Some(meta.uid).filter(|uid| !uid.is_empty()).map(|uid| Uid::new(&uid)),
            version: Some(meta.resource_version).filter(|version| !version.is_empty()).map(|v| Version::new(&v)),
            object: decode(body).ok(),
        }))
    }

    /// True if the object is gone. If not, the deletion is begun and somebody has to do his part: a
    /// [finalizer](Self::finalizers) is to be removed, a Pod to stop within its [grace period](Self::grace_period), a
    /// namespace to be emptied. Its last watch event tells the end.
    ///
    /// It says nothing of the objects that this one owns: under [`Background`](super::PropagationPolicy::Background) they
    /// are still there when it is gone.
    pub fn is_gone(&self) -> bool {
        !self.waits
    }

    /// The finalizers that an object waits for: `foregroundDeletion` while the objects go that it owns, `orphan` while they
    /// let go of it, and those of others. None if it is gone, or does not wait for one.
    pub fn finalizers(&self) -> &[String] {
        &self.finalizers
    }

    /// How long a Pod has to stop, counted from the deletion that marked it, which may be an earlier one. `None` if it is
    /// gone, or waits for something else. A Pod goes when its node says that it has stopped: sooner than this, or later,
    /// and not before its [finalizers](Self::finalizers) are removed.
    pub fn grace_period(&self) -> Option<Duration> {
        self.grace_period
    }

    /// Which incarnation was deleted; `None` if the server did not say.
    pub fn uid(&self) -> Option<&Uid> {
        self.uid.as_ref()
    }

    /// The version of the object in the answer: of one that waits its current one, of one that is gone its last. `None` if
    /// the server answered with a Status, which has none: then what was last seen of the object is all that is known.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// The object of the answer: as it waits, or as it was last. `None` if the server sent none, or one that does not fit
    /// the type.
    pub fn object(&self) -> Option<&T> {
        self.object.as_ref()
    }

    /// The same, to keep.
    pub fn into_object(self) -> Option<T> {
        self.object
    }
}

impl<T> fmt::Debug for Deletion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.waits { "marked for deletion, and still there" } else { "deleted" })?;
        if let Some(period) = self.grace_period {
            write!(f, ", has {period:?} to stop")?;
        }
        if !self.finalizers.is_empty() {
            write!(f, ", waits for {}", self.finalizers.join(" and "))?;
        }
        if let Some(uid) = &self.uid {
            write!(f, ", uid {uid}")?;
        }
        match &self.version {
            Some(version) => write!(f, ", version {version}"),
            None => Ok(()),
        }
    }
}

/// An object or a Status, as far as it says what became of a deletion.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    /// A word in a Status, anything in an object.
    #[serde(default)]
    status: serde_json::Value,
    details: Option<Details>,
    metadata: Option<Marks>,
}

#[derive(Deserialize)]
struct Details {
    uid: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marks {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(code: u16, body: &Value) -> Option<Result<Deletion<Value>, Status>> {
        Deletion::read(code, body.to_string().as_bytes(), serde_json::from_slice::<Value>)
    }

    fn deleted(code: u16, body: &Value) -> Deletion<Value> {
        read(code, body).expect("an answer").expect("a deletion")
    }

    fn pod(metadata: &Value) -> Value {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "status": {"phase": "Running"}})
    }

    #[test]
    fn a_status_says_which_incarnation_is_gone_and_no_version() {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": "u-1"}});
        let gone = deleted(200, &body);
        assert!(gone.is_gone() && gone.object().is_none() && gone.version().is_none());
        assert_eq!(gone.uid(), Some(&Uid::new("u-1")));
        assert_eq!(format!("{gone:?}"), "deleted, uid u-1");
        assert!(!deleted(202, &body).is_gone(), "accepted is not done");
        let bare = deleted(200, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
        assert!(bare.is_gone() && bare.uid().is_none());
    }

    #[test]
    fn an_object_is_gone_unless_it_is_marked_and_something_holds_it() {
        const NOW: &str = "2026-01-01T00:00:00Z";
        for (marks, gone, why) in [
            (json!({}), true, "its resource knows no grace"),
            (json!({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}), true, "its grace is over"),
            (json!({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0, "finalizers": null}), true, "as above"),
            (json!({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0, "finalizers": ["x/y"]}), false, "held"),
            (json!({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}), false, "a Pod has to stop"),
            (json!({"deletionTimestamp": NOW}), false, "a namespace is emptied first"),
            (json!({"finalizers": ["x/y"]}), true, "who is not marked does not wait"),
        ] {
            let mut metadata = json!({"name": "a", "uid": "u", "resourceVersion": "9"});
            metadata.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
            let answer = deleted(200, &pod(&metadata));
            assert_eq!(answer.is_gone(), gone, "{why}: {marks}");
            assert_eq!((answer.uid(), answer.version()), (Some(&Uid::new("u")), Some(&Version::new("9"))));
            assert_eq!(answer.into_object().unwrap()["metadata"], metadata);
        }
    }

    #[test]
    fn it_says_what_an_object_waits_for() {
        let marked = |grace: Value, finalizers: Value| {
            deleted(
                200,
                &pod(&json!({"uid": "u", "resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": grace, "finalizers": finalizers})),
            )
        };
        let says = |deletion: &Deletion<Value>| (deletion.finalizers().join(" "), deletion.grace_period());
        let within = |seconds| Some(Duration::from_secs(seconds));
        for (grace, finalizers, said) in [
            (json!(30), json!(null), (String::new(), within(30))),
            (json!(0), json!(["foregroundDeletion"]), ("foregroundDeletion".into(), None)),
            (json!(0), json!(["orphan", "x/y"]), ("orphan x/y".into(), None)),
            (json!(1), json!(["x/y"]), ("x/y".into(), within(1))),
            (json!(null), json!(null), (String::new(), None)),
            (json!(-1), json!([]), (String::new(), None)),
        ] {
            let waits = marked(grace, finalizers);
            assert_eq!((waits.is_gone(), says(&waits)), (false, said));
        }
        assert_eq!(
            format!("{:?}", marked(json!(1), json!(["x/y", "orphan"]))),
            "marked for deletion, and still there, has 1s to stop, waits for x/y and orphan, uid u, version 9"
        );
        let gone = deleted(200, &pod(&json!({"uid": "u", "finalizers": ["x/y"], "deletionGracePeriodSeconds": 7})));
        assert_eq!((gone.is_gone(), says(&gone)), (true, (String::new(), None)), "who is gone waits for nothing");
    }

    #[test]
    fn an_object_that_does_not_fit_its_type_is_deleted_all_the_same() {
        let body = pod(&json!({"uid": "u", "resourceVersion": "9"})).to_string();
        let answer = Deletion::<u8>::read(200, body.as_bytes(), serde_json::from_slice::<u8>).unwrap().unwrap();
        assert!(answer.is_gone() && answer.object().is_none());
        assert_eq!(answer.version(), Some(&Version::new("9")));
    }

    #[test]
    fn what_says_nothing_of_a_deletion_is_none() {
        for body in [json!("ok"), json!([]), json!({}), json!({"metadata": 7}), json!({"kind": "Pod"})] {
            assert!(read(200, &body).is_none(), "{body}");
        }
        assert!(Deletion::read(200, b"<html>", serde_json::from_slice::<Value>).is_none());
        let failed =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "Conflict"});
        assert_eq!(read(200, &failed).unwrap().unwrap_err().code, 409);
    }
}
