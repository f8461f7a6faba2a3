//! Delays on a clock that is paused: hours pass at once, and each thing happens when it is due.
//!
//! A paused clock moves only when every task waits, and then to the next timer. So one that comes to an instant at all shows
//! that nobody spins before it; and what is compared here are its instants, never those of the machine.

use informer_tokio::{
    Change, Client, Config, Controller, DynamicObject, Factory, FactoryOptions, FedSpec, Feeder, GATE_PATIENCE,
    HandlerOptions, Informer, Key, Obj, Object, Observed, Outcome, Resource, RunningController, Version, mapped,
};
use std::future::{pending, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

const HOUR: Duration = Duration::from_secs(3_600);

/// Timers of tokio round up to the next millisecond.
const ROUNDING: Duration = Duration::from_millis(5);

fn pods() -> Resource {
    "pods".parse().unwrap()
}

fn pod() -> Obj<DynamicObject> {
    let json = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "1"}}"#;
    Obj::of(DynamicObject::decode(json, &pods()).unwrap()).unwrap()
}

fn fed(factory: &Factory) -> (Informer<DynamicObject>, Feeder<DynamicObject>) {
    factory.fed(FedSpec::of(pods())).unwrap()
}

/// When something happened for the first times; it must happen within a hundred hours each time.
async fn times(times: usize, told: &mut UnboundedReceiver<Instant>) -> Vec<Instant> {
    let mut all = Vec::new();
    for _ in 0..times {
        all.push(timeout(100 * HOUR, told.recv()).await.expect("it never happens").expect("somebody tells"));
    }
    all
}

fn gaps(instants: &[Instant]) -> Vec<Duration> {
    instants.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn assert_hours(instants: &[Instant]) {
    for gap in gaps(instants) {
        assert!(gap >= HOUR && gap <= HOUR + ROUNDING, "{gap:?}");
    }
}

/// A controller whose reconciles tell when they are called, and ask for another one in an hour.
fn hourly(informer: Informer<DynamicObject>) -> (RunningController, UnboundedReceiver<Instant>) {
    let (tell, told) = unbounded_channel();
    let running = Controller::new(informer).start(move |_, _| {
        tell.send(Instant::now()).unwrap();
        ready(Ok(Outcome::requeue_after(HOUR)))
    });
    (running, told)
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_asks_for_another_run_in_an_hour_has_it_in_an_hour_of_the_paused_clock() {
    let factory = Factory::offline();
    let (informer, feeder) = fed(&factory);
    let (running, mut told) = hourly(informer);
    factory.start();
    feeder.list([pod()], Version::new("1")).unwrap();
    assert_hours(&times(5, &mut told).await);
    assert_eq!(running.counts().reconciles, 5);
    factory.stop(HOUR).await.unwrap();
}

#[test]
fn a_factory_that_was_made_and_is_fed_outside_the_runtime_follows_its_paused_clock() {
    let before = Factory::offline();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let after = Factory::offline();
    for factory in [before, after] {
        let (informer, feeder) = fed(&factory);
        let (running, mut told) = hourly(informer);
        runtime.block_on(async { factory.start() });
        // Whoever feeds is no task, and has the machine's clock.
        feeder.list([pod()], Version::new("1")).unwrap();
        let hours = runtime.block_on(times(3, &mut told));
        assert_hours(&hours);
        // Hours ahead of the machine's clock by now, and what is fed is seen at once all the same.
        feeder.apply(Change::Applied(pod())).unwrap();
        let next = runtime.block_on(times(1, &mut told));
        assert!(next[0] - hours[2] <= ROUNDING, "{:?}", next[0] - hours[2]);
        assert!(runtime.block_on(times(1, &mut told))[0] - next[0] <= HOUR + ROUNDING);
        drop(running);
        runtime.block_on(factory.stop(HOUR)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_is_dropped_at_its_deadline_on_the_paused_clock_and_retried_after_its_backoff() {
    let factory = Factory::offline();
    let (informer, feeder) = fed(&factory);
    let (tell, mut told) = unbounded_channel();
    let (deadlines, mut until) = unbounded_channel();
    let running = Controller::new(informer).reconcile_deadline(HOUR).start(move |_, cx| {
        tell.send(Instant::now()).unwrap();
        deadlines.send(Instant::from_std(cx.deadline().unwrap())).unwrap();
        pending()
    });
    factory.start();
    feeder.list([pod()], Version::new("1")).unwrap();
    let runs = times(4, &mut told).await;
    for gap in gaps(&runs) {
        assert!(
            gap > HOUR && gap < HOUR + Duration::from_secs(1),
            "an hour, and some milliseconds of backoff: {gap:?}"
        );
    }
    for (started, until) in runs.iter().zip(times(4, &mut until).await) {
        assert_eq!(until - *started, HOUR);
    }
    let counts = running.counts();
    assert_eq!((counts.reconciles, counts.cut_short, counts.panics), (4, 3, 0), "{counts:?}");
    running.stop();
    factory.stop(2 * HOUR).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_informer_backs_off_on_the_paused_clock_while_its_server_is_away() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut options = FactoryOptions::default();
    let note = Arc::clone(&asked);
    options.gate = Some(Arc::new(move |_| {
        note.lock().unwrap().push(Instant::now());
        Err(io::Error::from(io::ErrorKind::ConnectionRefused))
    }));
    let client = Client::connect(Config::from_url("http://127.0.0.1:9").unwrap()).unwrap();
    let factory = Factory::with_options(client, options);
    let informer = factory.informer_of::<DynamicObject>(pods());
    factory.start();
    sleep(HOUR).await;
    let gaps = gaps(&asked.lock().unwrap());
    for gap in &gaps {
        assert!(*gap >= Duration::from_millis(800) && *gap <= Duration::from_secs(6) + ROUNDING, "{gap:?}");
    }
    for gap in &gaps[3..] {
        assert!(*gap >= Duration::from_secs(3), "its steps have grown to the most that they may be: {gap:?}");
    }
    assert!(gaps.len() >= 3_600 / 6 - 1 && gaps.len() <= 3_600 / 3 + 3, "{}", gaps.len());
    assert!(!informer.has_synced());
    let late = factory.synced(HOUR).await.unwrap_err().to_string();
    assert!(late.contains("pods"), "{late}");
    factory.stop(HOUR).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resyncs_and_retries_of_items_come_when_they_are_due_on_the_paused_clock() {
    let factory = Factory::offline();
    let (informer, feeder) = fed(&factory);
    let (tell, mut told) = unbounded_channel();
    informer.handle_with(HandlerOptions::default().with_resync(HOUR), move |_| tell.send(Instant::now()).unwrap());
    let mut items = informer.items(Default::default());
    factory.start();
    feeder.list([pod()], Version::new("1")).unwrap();
    assert_hours(&times(5, &mut told).await);

    // Backoff of the default limiter: 5 ms, doubled each time.
    let mut tries = Vec::new();
    for attempt in 1..=12 {
        let item = items.next().await.unwrap();
        assert_eq!(item.attempt(), attempt);
        tries.push(Instant::now());
        item.retry("not yet");
    }
    let waits = gaps(&tries);
    assert!(waits.is_sorted() && waits[10] >= Duration::from_millis(5 << 10), "{waits:?}");
    drop(items);
    factory.stop(HOUR).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_source_nobody_starts_says_so_in_ten_seconds_of_the_paused_clock() {
    let (tell, mut told) = unbounded_channel();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::ControllerWaits { .. } | Observed::ControllerStopped { .. } = observed {
            tell.send((Instant::now(), observed.to_string())).unwrap();
        }
    };
    let factory = Factory::offline_with(FactoryOptions::observed(Arc::new(observer)));
    let other = Factory::offline();
    let (informer, feeder) = fed(&factory);
    let maps: Resource = "configmaps".parse().unwrap();
    let (borrowed, _not_fed) = other.fed(FedSpec::<DynamicObject>::of(maps)).unwrap();
    let running = Controller::new(informer)
        .watches(&borrowed, mapped(|_: &_| [Key::new("web", "a")]))
        .workers(2)
        .start(|_, _| ready(Ok(Outcome::done())));
    let begin = Instant::now();
    factory.start();
    feeder.list([pod()], Version::new("1")).unwrap();
    let (when, line) = timeout(HOUR, told.recv()).await.expect("it says nothing").unwrap();
    assert_eq!(line, "controller of pods waits for configmaps: nothing was fed yet: call Feeder::list");
    let waited = when - begin;
    assert!(waited >= GATE_PATIENCE && waited <= GATE_PATIENCE + ROUNDING, "{waited:?}");
    assert!(!running.is_idle(), "a pod waits");
    sleep(HOUR).await;

    borrowed.request_stop();
    let (_, line) = timeout(HOUR, told.recv()).await.expect("it says nothing").unwrap();
    assert_eq!(line, "controller of pods stopped: its source configmaps was stopped", "and nothing else came before");
    running.wait(HOUR).await.unwrap();
    assert_eq!(running.counts().reconciles, 0);
    factory.stop(HOUR).await.unwrap();
    assert!(told.try_recv().is_err(), "a stop is no loss");
}
