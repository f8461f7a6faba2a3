//! [`DeleteOptions`]: what a deletion asks for, in the words of Kubernetes.
//!
//! ```text
//! here                              on the wire                     the server's default
//! preconditions.uid                 preconditions.uid               any incarnation
//! preconditions.resource_version    preconditions.resourceVersion   any version
//! propagation_policy                propagationPolicy               Background; Orphan for Jobs, ReplicationControllers
//! grace_period                      gracePeriodSeconds              what the Pod says, else 30 s
//! ```
//!
//! Nothing of it is sent if nothing of it is said. There is no dry run: its answer looks like that of a deletion, and would
//! be taken for one.

use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The longest grace period: the server adds it to the time of day in nanoseconds of 63 bits. One second more is answered with
/// a mark that is due in the year 1734.
const MAX_GRACE_SECONDS: u64 = i64::MAX.unsigned_abs() / 1_000_000_000;

/// What must still be true of an object for a deletion to happen. By default nothing.
///
/// Neither may be empty: no object fulfils that, and the refusal would look like a conflict for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The incarnation: guards against deleting a successor of the same name.
    pub uid: Option<String>,
    /// The version: guards against deleting what was changed since it was read.
    pub resource_version: Option<String>,
}

/// What becomes of the objects that the deleted one owns (those that name it in their `ownerReferences`).
///
/// The server's default is `Background`, but for two types: of a Job (`batch/v1`) and a ReplicationController it is
/// [`Orphan`](Self::Orphan), so that their Pods run on. An object that the finalizer of a policy holds already keeps that
/// policy if the next deletion names none. Of a Pod that is stopping already another policy counts only together with a
/// shorter grace period.
///
/// What lies in a namespace, and the objects of a definition, are not owned in this sense: they go under any policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropagationPolicy {
    /// The object goes at once, and the garbage collector deletes the others some time after it.
    Background,
    /// The others go first. Until those are gone that hold it up (`blockOwnerDeletion`), the object is marked and waits for
    /// the finalizer `foregroundDeletion`.
    Foreground,
    /// The others stay, without an owner. Until they have let go of it, the object is marked and waits for the finalizer
    /// `orphan`.
    Orphan,
}

impl PropagationPolicy {
    /// The word of the API, such as `Background`.
    pub const fn as_str(self) -> &'static str {
        match self {
            PropagationPolicy::Background => "Background",
            PropagationPolicy::Foreground => "Foreground",
            PropagationPolicy::Orphan => "Orphan",
        }
    }
}

impl fmt::Display for PropagationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How an object is to be deleted. By default whatever it is by now, and as the server would by itself.
///
/// A deletion takes [`Preconditions`] or a [`PropagationPolicy`] as well, where that is all there is to say.
///
/// ```
/// use informer_runtime::api::{DeleteOptions, Preconditions, PropagationPolicy};
/// use std::time::Duration;
///
/// let anything: DeleteOptions = Preconditions::default().into();
/// let with_its_pods: DeleteOptions = PropagationPolicy::Background.into();
/// let only_it = DeleteOptions::default()
///     .with_uid("9a3c")
///     .with_propagation_policy(PropagationPolicy::Foreground)
///     .with_grace_period(Duration::from_secs(5));
/// assert_eq!(anything, DeleteOptions::default());
/// assert_eq!(with_its_pods.propagation_policy, Some(PropagationPolicy::Background));
/// assert_eq!(only_it.preconditions.uid.as_deref(), Some("9a3c"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// What must still be true of it.
    pub preconditions: Preconditions,
    /// What becomes of the objects that it owns; `None` leaves that to the server.
    pub propagation_policy: Option<PropagationPolicy>,
    /// How long a Pod may take to stop, in whole seconds, at most about 292 years; `None` leaves that to the Pod
    /// (`terminationGracePeriodSeconds`). See [`with_grace_period`](Self::with_grace_period) before it is set to zero.
    pub grace_period: Option<Duration>,
}

impl DeleteOptions {
    /// Only this incarnation: a successor of the same name is a conflict.
    #[must_use]
    pub fn with_uid(mut self, uid: impl fmt::Display) -> Self {
        self.preconditions.uid = Some(uid.to_string());
        self
    }

    /// Only at this version: an object that was changed since is a conflict.
    #[must_use]
    pub fn with_resource_version(mut self, version: impl fmt::Display) -> Self {
        self.preconditions.resource_version = Some(version.to_string());
        self
    }

    /// What becomes of the objects that it owns.
    #[must_use]
    pub fn with_propagation_policy(mut self, policy: PropagationPolicy) -> Self {
        self.propagation_policy = Some(policy);
        self
    }

    /// How long a Pod may take to stop, in whole seconds. The server looks at it of Pods only, and there only of one that
    /// has a node and has not ended. A Pod that is stopping already may be given less, and never more.
    ///
    /// [`Duration::ZERO`] has the server forget the Pod at once, **without knowing that its containers have stopped**: they
    /// may run on for as long as their node cannot be reached, beside the Pod that replaces this one. Where two of a kind do
    /// harm, such as two writers of one volume under the name that a StatefulSet gives, that loses data. It is for Pods
    /// whose node is known to be gone; for the others one second is as soon, and waits for the node to say so.
    #[must_use]
    pub fn with_grace_period(mut self, period: Duration) -> Self {
        self.grace_period = Some(period);
        self
    }

    /// As it is sent, `None` if it says nothing; or why it cannot be.
    pub(super) fn body(&self) -> Result<Option<Value>, String> {
        let mut said = Map::new();
        let mut conditions = Map::new();
        let Preconditions { uid, resource_version } = &self.preconditions;
        for (name, value) in [("uid", uid), ("resourceVersion", resource_version)] {
            match value.as_deref() {
                None => {}
                Some("") => {
                    return Err(format!(
                        "the precondition {name} is empty, which is true of no object: give the one that was seen, or None \
                         for any"
                    ));
                }
                Some(value) => _ = conditions.insert(name.into(), value.into()),
            }
        }
        if !conditions.is_empty() {
            said.insert("preconditions".into(), conditions.into());
        }
        if let Some(policy) = self.propagation_policy {
            said.insert("propagationPolicy".into(), policy.as_str().into());
        }
        if let Some(period) = self.grace_period {
            said.insert("gracePeriodSeconds".into(), whole_seconds(period)?.into());
        }
        if said.is_empty() {
            return Ok(None);
        }
        said.insert("kind".into(), "DeleteOptions".into());
        said.insert("apiVersion".into(), "v1".into());
        Ok(Some(said.into()))
    }
}

/// Rounded down, half a second would kill a Pod at once; so nothing is rounded.
fn whole_seconds(period: Duration) -> Result<u64, String> {
    let seconds = period.as_secs();
    if seconds > MAX_GRACE_SECONDS || seconds == MAX_GRACE_SECONDS && period.subsec_nanos() > 0 {
        return Err(format!("a grace period is at most {MAX_GRACE_SECONDS}s, here {period:?}"));
    }
    if period.subsec_nanos() > 0 {
        let up = seconds + 1;
        return Err(format!(
            "a grace period is in whole seconds, here {period:?}: {up}s is the next that is not shorter"
        ));
    }
    Ok(seconds)
}

impl From<Preconditions> for DeleteOptions {
    fn from(preconditions: Preconditions) -> Self {
        DeleteOptions { preconditions, ..DeleteOptions::default() }
    }
}

impl From<&Preconditions> for DeleteOptions {
    fn from(preconditions: &Preconditions) -> Self {
        preconditions.clone().into()
    }
}

impl From<PropagationPolicy> for DeleteOptions {
    fn from(policy: PropagationPolicy) -> Self {
        DeleteOptions::default().with_propagation_policy(policy)
    }
}

impl From<&DeleteOptions> for DeleteOptions {
    fn from(options: &DeleteOptions) -> Self {
        options.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent(options: impl Into<DeleteOptions>) -> Option<Value> {
        options.into().body().expect("they can be sent")
    }

    fn refused(options: &DeleteOptions) -> String {
        options.body().expect_err("they cannot be sent")
    }

    #[test]
    fn options_that_say_nothing_are_not_sent() {
        assert_eq!(sent(DeleteOptions::default()), None);
        assert_eq!(sent(Preconditions::default()), None);
    }

    #[test]
    fn what_is_said_is_sent_in_the_words_of_the_api_and_nothing_else() {
        let with = |fields: Value| {
            let mut all = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            Some(all)
        };
        let options = DeleteOptions::default;
        let uid = Preconditions { uid: Some("u".into()), resource_version: None };
        assert_eq!(sent(&uid), with(json!({"preconditions": {"uid": "u"}})));
        assert_eq!(sent(uid), sent(options().with_uid("u")));
        let version = options().with_resource_version(7);
        assert_eq!(sent(version), with(json!({"preconditions": {"resourceVersion": "7"}})));
        for (policy, word) in [
            (PropagationPolicy::Background, "Background"),
            (PropagationPolicy::Foreground, "Foreground"),
            (PropagationPolicy::Orphan, "Orphan"),
        ] {
            assert_eq!(sent(policy), with(json!({"propagationPolicy": word})));
            assert_eq!(policy.to_string(), word);
        }
        for (period, seconds) in [(Duration::ZERO, 0), (Duration::from_secs(30), 30), (Duration::from_millis(2000), 2)]
        {
            assert_eq!(sent(options().with_grace_period(period)), with(json!({"gracePeriodSeconds": seconds})));
        }
        let all = options()
            .with_uid("u")
            .with_resource_version("7")
            .with_propagation_policy(PropagationPolicy::Orphan)
            .with_grace_period(Duration::from_secs(1));
        let fields = json!({"preconditions": {"uid": "u", "resourceVersion": "7"}, "propagationPolicy": "Orphan",
            "gracePeriodSeconds": 1});
        assert_eq!(sent(all), with(fields));
    }

    #[test]
    fn a_grace_period_is_never_rounded_least_of_all_to_at_once() {
        let of = |period| DeleteOptions::default().with_grace_period(period);
        assert_eq!(
            refused(&of(Duration::from_millis(500))),
            "a grace period is in whole seconds, here 500ms: 1s is the next that is not shorter"
        );
        assert!(refused(&of(Duration::from_nanos(1_000_000_001))).contains("here 1.000000001s: 2s is"));
        let most = Duration::from_secs(MAX_GRACE_SECONDS);
        assert_eq!(sent(of(most)).unwrap()["gracePeriodSeconds"], 9_223_372_036_u64);
        for more in [most + Duration::from_nanos(1), most + Duration::from_secs(1), Duration::MAX] {
            assert!(refused(&of(more)).starts_with("a grace period is at most 9223372036s, here "), "{more:?}");
        }
    }

    #[test]
    fn an_empty_precondition_is_named_as_it_would_be_a_conflict_for_ever() {
        let uid = refused(&DeleteOptions::default().with_uid(""));
        assert!(uid.starts_with("the precondition uid is empty, which is true of no object"), "{uid}");
        let version = refused(&DeleteOptions::default().with_uid("u").with_resource_version(""));
        assert!(version.starts_with("the precondition resourceVersion is empty"), "{version}");
    }
}
