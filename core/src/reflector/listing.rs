//! The state `Listing`: pages of one list, which shows only when it is whole.
//!
//! ```text
//! first page ──token──► next page … ──last page──► finished ──committed──► Opening
//!     │ 410 or too large: at once once more, for the newest state
//!     │ 410 on a later page: at once once more, without pages
//!     └ anything else: Backoff, then list again
//! ```

use super::backoff::{Next, Wait};
use super::exchange::Exchange;
use super::failure::{Fault, reason};
use super::stream::AT_A_TIME;
use super::tuning::Tuning;
use super::{Ask, Effect, End, Phase, Reflector, State};
use crate::object::{Resource, Version};
use crate::time::{Deadline, Time};
use crate::wire::{Body, Head, Limits, ListDecoder, ListEnd, RawBatch, Status, Verb, WireError, excerpt};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;

pub(super) struct Listing {
    /// The page in flight; `None` when the list is finished and waits for its commit.
    pub(super) exchange: Option<Exchange>,
    attempt: u64,
    ask: Ask,
    /// Objects per page; 0 is all.
    limit: u32,
    reader: Option<PageReader>,
    pages: u32,
    /// Hashes of the tokens that were followed.
    tokens: BTreeSet<u64>,
    /// That of the first page (C5).
    version: Option<Version>,
}

/// Reads the body of one page.
pub(super) struct PageReader {
    body: Body,
    list: ListDecoder,
}

impl PageReader {
    pub(super) fn new(body: Body, limits: Limits) -> Self {
        PageReader { body, list: ListDecoder::new(limits) }
    }

    /// Reads from the front of `bytes` what makes [`AT_A_TIME`], and appends the items that are complete. False if that
    /// was all that can be made of them.
    pub(super) fn feed(&mut self, bytes: &mut &[u8], items: &mut RawBatch) -> Result<bool, WireError> {
        let mut made = 0;
        while made < AT_A_TIME {
            let Some(plain) = self.body.pull(bytes)? else { return Ok(false) };
            made += plain.len();
            items.reserve(plain.len());
            self.list.feed(plain, items)?;
        }
        Ok(self.body.may_have_more(bytes))
    }

    pub(super) fn finish(self) -> Result<ListEnd, WireError> {
        self.body.finish()?;
        self.list.finish()
    }
}

impl Listing {
    pub(super) fn deadline(&self, tuning: &Tuning) -> Option<Deadline> {
        self.exchange.as_ref()?.deadline(tuning, Some(tuning.list_silence))
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn is_finished(&self) -> bool {
        self.exchange.is_none()
    }
}

impl Reflector {
    /// Begins a list by the strategy in force.
    pub(super) fn begin_list(&mut self, now: Time) {
        if self.streams() {
            self.begin_stream(now);
        } else {
            self.begin_pages(now);
        }
    }

    pub(super) fn begin_pages(&mut self, now: Time) {
        let ask = self.memory.ask();
        // At our own version a cache can answer, whole and without a limit; pages would go to its disk.
        let limit = if matches!(ask, Ask::NotOlder(_)) { 0 } else { self.config.page_size };
        self.begin_pages_at(now, ask, limit);
    }

    fn begin_pages_at(&mut self, now: Time, ask: Ask, limit: u32) {
        let attempt = self.next_attempt();
        let mut query = Vec::new();
        if limit > 0 {
            query.push(("limit", limit.to_string()));
        }
        query.extend(ask.query());
        let id = self.send(now, Verb::List, query);
        let exchange = Some(Exchange::new(id, now, self.config.tuning.list_head));
        let (reader, pages, tokens, version) = (None, 1, BTreeSet::new(), None);
        let listing = Listing { exchange, attempt, ask, limit, reader, pages, tokens, version };
        self.enter(Phase::Listing, State::Listing(listing));
    }

    fn next_page(&mut self, now: Time, mut listing: Listing, token: String) {
        listing.pages += 1;
        let mut query = Vec::new();
        if listing.limit > 0 {
            query.push(("limit", listing.limit.to_string()));
        }
        // The token holds the version; to give both is an error (W8).
        query.push(("continue", token));
        let id = self.send(now, Verb::List, query);
        listing.exchange = Some(Exchange::new(id, now, self.config.tuning.list_head));
        listing.reader = None;
        self.state = State::Listing(listing);
    }

    pub(super) fn listing_head(&mut self, now: Time, mut listing: Listing, head: &Head) {
        let body = listing.exchange.as_mut().and_then(|exchange| exchange.head(now, head));
        match body {
            Some(Ok(body)) => {
                listing.reader = Some(PageReader::new(body, self.config.limits));
                self.state = State::Listing(listing);
            }
            Some(Err(error)) => self.listing_broken(now, listing, &error),
            None => self.state = State::Listing(listing),
        }
    }

    pub(super) fn listing_body(&mut self, now: Time, mut listing: Listing, bytes: &mut &[u8]) -> bool {
        let mut batch = RawBatch::new();
        let outcome = listing.reader.as_mut().map_or(Ok(false), |reader| reader.feed(bytes, &mut batch));
        match outcome {
            Ok(more) => {
                self.items(listing.attempt, batch);
                self.state = State::Listing(listing);
                more
            }
            Err(error) => {
                self.listing_broken(now, listing, &error);
                false
            }
        }
    }

    fn items(&mut self, attempt: u64, batch: RawBatch) {
        if !batch.is_empty() {
            self.effects.push_back(Effect::Items { attempt, staged: true, doubt: self.memory.latest, batch });
        }
    }

    pub(super) fn listing_end(&mut self, now: Time, mut listing: Listing, end: &End) {
        let failure = listing.exchange.as_ref().and_then(Exchange::failure);
        if let Some((status, asked)) = failure {
            listing.exchange = None;
            let wait = asked.map_or(Wait::Step, Wait::Asked);
            self.listing_refused(now, &listing, &status, wait);
            return;
        }
        match end {
            End::Refused(text) => {
                self.listing_failed(now, Fault::new(reason::REFUSED, text), Wait::Refused);
            }
            End::Broken(text) => self.listing_failed(now, Fault::new(reason::RESET, text), Wait::Step),
            End::Closed => {
                listing.exchange = None;
                let Some(reader) = listing.reader.take() else {
                    let fault = Fault::new(reason::RESET, "the connection ended before the head of the answer");
                    self.listing_failed(now, fault, Wait::Step);
                    return;
                };
                match reader.finish() {
                    Ok(end) => self.page(now, listing, end),
                    Err(error) => self.listing_broken(now, listing, &error),
                }
            }
        }
    }

    /// A page is complete.
    fn page(&mut self, now: Time, mut listing: Listing, end: ListEnd) {
        if let Some(text) = other_list(&self.config.resource, &end) {
            self.listing_failed(now, Fault::new(reason::UNDECODABLE, text), Wait::Step);
            return;
        }
        if end.version.is_unset() {
            let text = format!("the list has no metadata.resourceVersion to watch from (it says {:?})", end.version);
            self.listing_failed(now, Fault::new(reason::UNDECODABLE, text), Wait::Step);
            return;
        }
        let version = listing.version.get_or_insert(end.version).clone();
        if !end.continue_token.is_empty() {
            let fresh = listing.tokens.insert(FixedState::default().hash_one(&end.continue_token));
            if !fresh || listing.pages >= self.config.tuning.pages {
                let text = if fresh { "it has too many pages" } else { "a continue token came twice" };
                let text = format!("the list does not end: {text} ({} pages read)", listing.pages);
                self.listing_failed(now, Fault::new(reason::UNDECODABLE, text), Wait::Step);
                return;
            }
            self.next_page(now, listing, end.continue_token);
            return;
        }
        let set_back = self.memory.is_older(&version);
        if set_back && !self.accept_older(now, &version, &listing.ask, Phase::Listing) {
            // Refused once: what the newest state says is then the truth.
            self.discard();
            self.begin_pages_at(now, Ask::Latest, self.config.page_size);
            return;
        }
        self.memory.echoed = matches!(&listing.ask, Ask::NotOlder(asked) if *asked == version);
        if set_back {
            self.memory.set_back = Some(listing.attempt);
        }
        let set_back = self.memory.set_back.is_some();
        self.effects.push_back(Effect::Finish {
            attempt: listing.attempt,
            phase: Phase::Listing,
            version: version.clone(),
            set_back,
        });
        listing.version = Some(version);
        self.state = State::Listing(listing);
    }

    /// Judges a list that is older than the cache: a cache that lags is refused, the newest state is believed.
    pub(super) fn accept_older(&mut self, now: Time, version: &Version, ask: &Ask, phase: Phase) -> bool {
        let known = &self.memory.version;
        if *ask == Ask::Latest {
            let text =
                format!("the server is at version {version} and was at {known}: it was set back to an older state");
            self.report(now, phase, Fault::new(reason::WENT_BACKWARDS, text), None);
            // It is announced: what is listed next is measured against this.
            self.memory.version = version.clone();
            return true;
        }
        let text = format!("a cache answered with version {version}, older than {known}; asking for the newest state");
        self.report(now, phase, Fault::new(reason::STALE_LIST, text), Some(crate::time::Duration::ZERO));
        self.memory.latest = true;
        false
    }

    /// The list is in the cache.
    pub(crate) fn applied(&mut self, now: Time, attempt: u64) {
        self.memory.set_back = self.memory.set_back.filter(|from| attempt < *from);
        if let State::Listing(Listing { exchange: None, attempt: mine, version: Some(version), .. }) = &self.state {
            if *mine == attempt {
                self.memory.version = version.clone();
                self.memory.latest = false;
                self.memory.heard(now);
                self.memory.repeats.forget(Phase::Listing);
                self.begin_watch(now);
            }
        }
        self.check(now);
    }

    /// The finished list of `attempt` holds something that a strict informer does not accept: it never comes into the
    /// store, so nothing may go on from it.
    pub(crate) fn rejected(&mut self, now: Time, attempt: u64, text: &str) {
        let fault = Fault::new(reason::UNDECODABLE, text);
        let (phase, is_replaced) = match &self.state {
            State::Idle | State::Stopped => return,
            State::Listing(listing) => (Phase::Listing, listing.attempt != attempt),
            State::Streaming(_) => (Phase::Streaming, true),
            State::Backoff(state) => (Phase::Streaming, state.next == Next::List),
            // Its stream went on, or was opened again from its version.
            State::Opening(_) | State::Watching(_) | State::Probing(_) => (Phase::Streaming, false),
        };
        if is_replaced {
            self.report(now, phase, fault, None);
            return;
        }
        self.abandon();
        self.fail(now, phase, fault, Wait::Step, Next::List);
        self.check(now);
    }

    pub(super) fn listing_late(&mut self, now: Time, mut listing: Listing) {
        let Some(exchange) = listing.exchange.take() else {
            self.state = State::Listing(listing);
            return;
        };
        self.effects.push_back(Effect::Cancel(exchange.id));
        if let Some((status, asked)) = exchange.failure() {
            self.listing_refused(now, &listing, &status, asked.map_or(Wait::Step, Wait::Asked));
            return;
        }
        let what = if exchange.is_open() { "the rest of a list" } else { "the answer to a list" };
        self.listing_failed(now, Fault::late(what), Wait::Step);
    }

    fn listing_broken(&mut self, now: Time, listing: Listing, error: &WireError) {
        if let Some(exchange) = &listing.exchange {
            self.effects.push_back(Effect::Cancel(exchange.id));
        }
        if let WireError::Status(status) = error {
            let asked = status.retry_after;
            self.listing_refused(now, &listing, status, asked.map_or(Wait::Step, Wait::Asked));
            return;
        }
        self.listing_failed(now, Fault::wire(error), Wait::Step);
    }

    /// The server said no.
    fn listing_refused(&mut self, now: Time, listing: &Listing, status: &Status, wait: Wait) {
        let fault = Fault::status(status);
        if !status.is_expired() && !status.is_too_large_version() {
            self.listing_failed(now, fault, wait);
            return;
        }
        self.discard();
        if listing.pages > 1 && listing.limit > 0 {
            // The token aged out: pages of this size take too long, so all at once (client-go does the same). A server
            // that makes pages all the same gets no third try for free.
            self.report(now, Phase::Listing, fault, Some(crate::time::Duration::ZERO));
            self.begin_pages_at(now, listing.ask.clone(), 0);
            return;
        }
        let tried_latest = listing.ask == Ask::Latest;
        self.memory.latest = true;
        let wait = if tried_latest { wait } else { Wait::None };
        let wait = self.wait(wait);
        self.report(now, Phase::Listing, fault, Some(wait));
        if tried_latest {
            self.go_on(now, now + wait, Next::List);
        } else {
            self.begin_pages(now);
        }
    }

    fn listing_failed(&mut self, now: Time, fault: Fault, wait: Wait) {
        self.discard();
        self.fail(now, Phase::Listing, fault, wait, Next::List);
    }
}

/// Why a list is not one of `resource`, if that can be told. An answer that went astray must not delete what is cached: it
/// need not have items that would show it. A custom resource names the kind of its list as it likes (`spec.names.listKind`);
/// its group always has a dot, and groups without one are Kubernetes' own.
fn other_list(resource: &Resource, end: &ListEnd) -> Option<String> {
    if resource.group.contains('.') || end.kind == "List" {
        return None;
    }
    let of = end.kind.strip_suffix("List").unwrap_or_default();
    let wrong_kind = !of.is_empty() && !resource.kind.is_empty() && of != resource.kind;
    let wrong_version = !end.api_version.is_empty() && !resource.is_api_version(&end.api_version);
    (wrong_kind || wrong_version).then(|| {
        let [kind, version] = [&end.kind, &end.api_version].map(|text| excerpt(text.as_bytes()));
        let (expected, of) = (&resource.kind, resource.api_version());
        format!("the body is a {kind} of {version}, not a {expected}List of {of}: something on the way answers for another path")
    })
}
