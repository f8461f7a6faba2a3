//! A network that refuses, resets, closes, stalls, drips, holds back and cuts, under changes all the time.

use crate::harness::{cluster, eventually, is_slow_wanted};
use crate::proxy::{Network, Proxy};
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Watcher};
use informer_core::reflector::{Tuning, reason};
use informer_core::rng::Rng;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// How long changes go on under each fault, at least.
const PHASE: Duration = Duration::from_millis(800);

/// Deadlines that would take minutes, in seconds, and waits of one or two; the first steps stay as they are.
pub(crate) fn impatient() -> Tuning {
    let mut tuning = quick();
    tuning.connect = MS(1_500);
    tuning.list_head = MS(2_000);
    tuning.watch_head = MS(2_000);
    tuning.list_silence = MS(2_000);
    tuning.watch_silence = MS(2_000);
    // The real server sends a bookmark a minute: it would be taken for one that sends none.
    tuning.unbookmarked_streams = u32::MAX;
    tuning
}

/// Waits of one or two seconds at most, for tests that are not about how long they are.
pub(crate) fn quick() -> Tuning {
    let mut tuning = Tuning::default();
    tuning.refused_cap = MS(800);
    tuning.backoff_cap = MS(1_600);
    tuning
}

fn spec() -> InformerSpec<ConfigMap> {
    InformerSpec::new().tuning(impatient())
}

/// Objects that come, change, go and come again, as a seed has it.
struct Churn {
    maps: Collection,
    alive: BTreeSet<String>,
    rng: Rng,
    changes: u64,
}

impl Churn {
    fn step(&mut self) {
        self.changes += 1;
        let name = format!("m-{}", self.rng.below(12));
        if !self.alive.contains(&name) {
            self.maps.create(&name);
            self.alive.insert(name);
            return;
        }
        match self.rng.below(4) {
            0 => {
                self.maps.delete(&name);
                self.alive.remove(&name);
            }
            1 => {
                self.maps.delete(&name);
                self.maps.create(&name);
            }
            _ => drop(self.maps.change(&name, &format!("c-{}", self.changes))),
        }
    }

    /// Goes on for a while, and until `is_enough`.
    fn until(&mut self, what: &str, is_enough: impl Fn() -> bool) {
        let began = Instant::now();
        eventually(what, || {
            self.step();
            sleep(MS(20));
            if began.elapsed() >= PHASE && is_enough() { Ok(()) } else { Err("it never struck".into()) }
        });
    }
}

/// All faults in an order that the seed chooses, with the numbers that belong to them.
fn schedule(rng: &mut Rng) -> Vec<Network> {
    let mut faults = vec![
        Network::Refusing,
        Network::ResetAfter(1 + rng.below(4_000) as usize),
        Network::CloseAfter(1 + rng.below(4_000) as usize),
        Network::StallAfter(rng.below(3_000) as usize),
        Network::Dripping,
        Network::Coalescing(MS(100 + rng.below(700))),
        Network::CutAt(MS(1_000)),
    ];
    // Fisher and Yates.
    for at in (1..faults.len()).rev() {
        faults.swap(at, rng.below(at as u64 + 1) as usize);
    }
    faults
}

fn survives(namespace: &str, seed: u64, rounds: usize) {
    let Some(cluster) = cluster() else { return };
    println!("INFORMER_FAULT_SEED={seed}");
    let namespace = cluster.namespace(namespace);
    let mut rng = Rng::new(seed);
    let maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let mut churn = Churn { maps, alive: BTreeSet::new(), rng: Rng::derive(seed, "churn"), changes: 0 };
    for _ in 0..20 {
        churn.step();
    }
    let proxy = Proxy::to(cluster.address());
    let watchers = Watcher::synced_pair(&cluster.config_through(&proxy), Some(&namespace), spec);
    for _ in 0..rounds {
        for network in schedule(&mut rng) {
            let count = |reason: &str| {
                let of =
                    |watcher: &Watcher<ConfigMap>| watcher.failures().iter().filter(|f| f.reason == reason).count();
                watchers.iter().map(of).collect::<Vec<_>>()
            };
            let more =
                |before: &[usize], reason: &str| count(reason).iter().zip(before).all(|(now, before)| now > before);
            let (late, refused) = (count(reason::DEADLINE), count(reason::REFUSED));
            let struck = proxy.struck();
            let counters = [&struck.resets, &struck.closes, &struck.cuts, &struck.bursts, &struck.drips];
            let before = counters.map(|counter| counter.load(Ordering::Relaxed));
            let struck_twice = |which: usize| counters[which].load(Ordering::Relaxed) >= before[which] + 2;
            proxy.set(network);
            if network == Network::Refusing {
                // Else the watches that stand are left alone.
                proxy.cut();
            }
            churn.until(&format!("{network:?}"), || match network {
                Network::Good => true,
                Network::Refusing => more(&refused, reason::REFUSED),
                Network::ResetAfter(_) => struck_twice(0),
                Network::CloseAfter(_) => struck_twice(1),
                Network::StallAfter(_) => more(&late, reason::DEADLINE),
                Network::CutAt(_) => struck_twice(2),
                Network::Coalescing(_) => struck_twice(3),
                Network::Dripping => struck_twice(4),
            });
            proxy.set(Network::Good);
            churn.step();
        }
    }
    settle(&proxy, &watchers, &churn, &cluster);
    watchers.into_iter().for_each(Watcher::stop);
    eventually("no connection is left", || {
        let open = proxy.open();
        if open == 0 { Ok(()) } else { Err(format!("{open} stand")) }
    });
}

/// The network is good again: everything is right, and nobody was told what was not so.
fn settle(proxy: &Proxy, watchers: &[Watcher<ConfigMap>], churn: &Churn, cluster: &crate::harness::Cluster) {
    let healed = Instant::now();
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            churn.maps.explains(&watcher.name, &seen);
        }
        watcher.asks_within_its_backoff();
    }
    let requests: usize = watchers.iter().map(Watcher::requests).sum();
    let failures: usize = watchers.iter().map(|watcher| watcher.failures().len()).sum();
    println!(
        "{} changes, {requests} requests, {} connections, {failures} failures; right {:?} after it healed; {:?}",
        churn.changes,
        proxy.accepted(),
        healed.elapsed(),
        proxy.struck()
    );
    assert!(proxy.accepted() <= requests, "{} connections for {requests} requests", proxy.accepted());
}

#[test]
fn whatever_the_network_does_the_view_is_right_once_it_is_good_again() {
    let seed = std::env::var("INFORMER_FAULT_SEED").ok().map_or(1, |seed| seed.parse().expect("INFORMER_FAULT_SEED"));
    survives("network", seed, 1);
}

#[test]
fn many_schedules_of_network_faults_end_well() {
    if is_slow_wanted("many schedules of network faults") {
        for seed in 2..12 {
            survives(&format!("network-{seed}"), seed, 2);
        }
    }
}

#[test]
fn a_network_that_cuts_every_connection_after_a_second_for_a_minute_loses_nothing() {
    if !is_slow_wanted("a minute of cut connections") {
        return;
    }
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("cut");
    let maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let mut churn = Churn { maps, alive: BTreeSet::new(), rng: Rng::new(1), changes: 0 };
    let proxy = Proxy::to(cluster.address());
    let watchers = Watcher::synced_pair(&cluster.config_through(&proxy), Some(&namespace), InformerSpec::new);
    proxy.set(Network::CutAt(MS(1_000)));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        churn.step();
        sleep(MS(50));
    }
    proxy.set(Network::Good);
    settle(&proxy, &watchers, &churn, &cluster);
    watchers.into_iter().for_each(Watcher::stop);
}

#[test]
fn a_connection_that_dies_without_a_word_is_found_with_the_default_deadlines() {
    if !is_slow_wanted("a half-open connection with the default deadlines") {
        return;
    }
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("half-open");
    let maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let mut churn = Churn { maps, alive: BTreeSet::new(), rng: Rng::new(1), changes: 0 };
    let proxy = Proxy::to(cluster.address());
    let watchers = Watcher::synced_pair(&cluster.config_through(&proxy), Some(&namespace), InformerSpec::new);
    proxy.set(Network::StallAfter(0));
    let began = Instant::now();
    let requests: Vec<usize> = watchers.iter().map(Watcher::requests).collect();
    for _ in 0..20 {
        churn.step();
    }
    // 150 s of silence, then a new connection, which is not answered either.
    while watchers.iter().zip(&requests).any(|(watcher, before)| watcher.requests() == *before) {
        assert!(began.elapsed() < Duration::from_secs(200), "the dead watch was not given up");
        sleep(MS(100));
    }
    println!("the dead watch was given up after {:?}", began.elapsed());
    proxy.set(Network::Good);
    settle(&proxy, &watchers, &churn, &cluster);
    watchers.into_iter().for_each(Watcher::stop);
}
