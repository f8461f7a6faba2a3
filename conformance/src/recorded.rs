//! What a peer did with a scenario, as it was recorded, and whether that meets what the scenario expects.
//!
//! A folder holds one outcome a scenario, under the scenario's file name: `client-go/` here, written by
//! `peers/client-go/play`. Times are held against the bounds that the file gives, as ours are; a peer that played in real
//! time is granted what our runtimes are.
//!
//! ```
//! use informer_conformance::recorded::{Peer, differences};
//! use informer_conformance::scenario::ScenarioFile;
//! use std::path::Path;
//!
//! let here = Path::new(env!("CARGO_MANIFEST_DIR"));
//! let scenario = ScenarioFile::from_file(here.join("scenarios/relist-order.json")).unwrap();
//! assert_eq!(differences(&scenario, Peer::ClientGo, &here.join("client-go")).unwrap(), Some(vec![]));
//! assert_eq!(differences(&scenario, Peer::ClientGo, &here.join("src")).unwrap(), None, "nothing is recorded there");
//! ```

use crate::expect::{ClientGo, REAL_TIME_GRACE_MS, compare};
use crate::form::FormError;
use crate::invariants::invariants;
use crate::outcome::Outcome;
use crate::play::REAL_TIME_LIMIT_MS;
use crate::queue::{QueueOutcome, compare_queue};
use crate::scenario::{Action, Scenario, ScenarioFile};
use std::fmt;
use std::path::Path;

/// Another implementation that played our scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// Kubernetes' own, in Go.
    ClientGo,
    /// kube-rs' `kube-runtime`.
    KubeRs,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 2] = [Peer::ClientGo, Peer::KubeRs];

    /// Its name: of its folder, and in `runtime` of its outcomes.
    pub const fn name(self) -> &'static str {
        match self {
            Peer::ClientGo => "client-go",
            Peer::KubeRs => "kube-rs",
        }
    }

    /// How much later than written a thing may happen, in ms: client-go plays in virtual time, kube-rs over loopback.
    pub const fn grace_ms(self) -> u64 {
        match self {
            Peer::ClientGo => 0,
            Peer::KubeRs => REAL_TIME_GRACE_MS,
        }
    }

    /// The longest `timeoutSeconds` that it can be told to ask for, in ms, if there is one: kube-rs refuses 295 s and more,
    /// and asks for 290 if it is told nothing.
    const fn longest_watch_ms(self) -> Option<u64> {
        match self {
            Peer::ClientGo => None,
            Peer::KubeRs => Some(290_000),
        }
    }

    /// Why a file cannot be played by it, if that is so: client-go has everything that files ask for, and virtual time;
    /// kube-rs has a stream where they have handlers, and plays on a real clock.
    pub fn cannot_play(self, file: &ScenarioFile) -> Option<&'static str> {
        match (self, file) {
            (Peer::ClientGo, _) => None,
            (Peer::KubeRs, ScenarioFile::Queue(_)) => Some("it has no work queue of its own"),
            (Peer::KubeRs, ScenarioFile::Informer(scenario)) => too_much_for_a_stream(scenario),
        }
    }
}

fn too_much_for_a_stream(scenario: &Scenario) -> Option<&'static str> {
    for command in &scenario.commands {
        match command.what {
            Action::Stop => {}
            Action::Pause | Action::Resume => return Some("its stream cannot be held up from outside"),
            Action::SetToken(_) => return Some("its token is fixed with the client"),
        }
    }
    let handlers = &scenario.handlers;
    if handlers.iter().any(|handler| scenario.resync_ms(handler) > 0) {
        Some("it has no resync")
    } else if handlers.iter().any(|handler| handler.add_at_ms > 0 || handler.remove_at_ms.is_some()) {
        Some("it has no handlers that come and go")
    } else if handlers.len() > 1 && handlers.iter().any(|handler| handler.stall_ms > 0) {
        Some("it has one consumer, and none beside a slow one")
    } else if scenario.run_for_ms > REAL_TIME_LIMIT_MS {
        Some("too long in real time")
    } else {
        None
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl ScenarioFile {
    /// What the file says that client-go does with it.
    pub fn client_go(&self) -> Option<&ClientGo> {
        match self {
            ScenarioFile::Informer(scenario) => scenario.expect.client_go.as_ref(),
            ScenarioFile::Queue(scenario) => scenario.expect.client_go.as_ref(),
        }
    }
}

/// How the outcome of `peer` in `folder` differs from what `scenario` expects, and from the rules that always hold;
/// nothing if none was recorded.
///
/// # Errors
/// The recorded file cannot be read, is not of the documented form, or is another's: of another scenario or runtime.
pub fn differences(scenario: &ScenarioFile, peer: Peer, folder: &Path) -> Result<Option<Vec<String>>, FormError> {
    let file = folder.join(format!("{}.json", scenario.name()));
    if !file.exists() {
        return Ok(None);
    }
    let own = |runtime: &str| {
        let problem = || format!("is {runtime:?}, but this is the folder of {peer}");
        if runtime == peer.name() { Ok(()) } else { Err(FormError::at("runtime", problem()).in_file(&file)) }
    };
    Ok(Some(match scenario {
        ScenarioFile::Informer(scenario) => {
            let outcome = Outcome::from_file(&file)?;
            own(&outcome.runtime)?;
            let mut found = compare(scenario, &outcome, peer.grace_ms());
            let mut scenario = scenario.clone();
            let timeout = &mut scenario.informer.min_watch_timeout_ms;
            *timeout = peer.longest_watch_ms().map_or(*timeout, |longest| longest.min(*timeout));
            found.extend(invariants(&outcome, &scenario));
            found
        }
        ScenarioFile::Queue(scenario) => {
            let outcome = QueueOutcome::from_file(&file)?;
            own(&outcome.runtime)?;
            compare_queue(scenario, &outcome, peer.grace_ms())
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn kube_rs(change: &str, run_for_ms: u64) -> Option<&'static str> {
        let text = format!(r#"{change} "runForMs": {run_for_ms}, "server": []"#);
        let file = ScenarioFile::Informer(Box::new(fixtures::scenario(&text).unwrap()));
        assert_eq!(Peer::ClientGo.cannot_play(&file), None, "client-go has everything that files ask for");
        Peer::KubeRs.cannot_play(&file)
    }

    #[test]
    fn a_file_is_passed_over_for_what_a_stream_does_not_have_and_for_its_length() {
        for (change, why) in [
            ("", None),
            (r#""commands": [{"atMs": 5, "do": "stop"}],"#, None),
            (r#""handlers": [{"name": "a", "stallMs": 5}],"#, None),
            (r#""commands": [{"atMs": 5, "do": "pause"}, {"atMs": 6, "do": "resume"}],"#, Some("held up")),
            (r#""commands": [{"atMs": 5, "do": "setToken", "token": "B"}],"#, Some("token")),
            (r#""informer": {"resyncMs": 2000},"#, Some("resync")),
            (r#""handlers": [{"name": "a", "addAtMs": 5}],"#, Some("come and go")),
            (r#""handlers": [{"name": "a"}, {"name": "b", "stallMs": 5}],"#, Some("one consumer")),
        ] {
            let got = kube_rs(change, REAL_TIME_LIMIT_MS);
            assert!(why.map_or(got.is_none(), |why| got.is_some_and(|got| got.contains(why))), "{change}: {got:?}");
        }
        assert_eq!(kube_rs("", REAL_TIME_LIMIT_MS + 1), Some("too long in real time"));
    }
}
