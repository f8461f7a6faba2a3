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
use crate::queue::{QueueOutcome, compare_queue};
use crate::scenario::ScenarioFile;
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
            found.extend(invariants(&outcome, scenario));
            found
        }
        ScenarioFile::Queue(scenario) => {
            let outcome = QueueOutcome::from_file(&file)?;
            own(&outcome.runtime)?;
            compare_queue(scenario, &outcome, peer.grace_ms())
        }
    }))
}
