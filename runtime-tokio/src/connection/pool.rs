//! [`Pool`]: HTTP/1.1 connections that wait for another request, and the timer that closes them.
//!
//! ```text
//! keep ─► Idle ─► take
//!           ▲ drops what is old
//!         closer: a task that sleeps until the oldest is, and ends when none is left
//! ```
//!
//! Which connections are kept, and for how long, is decided by [`Idle`].

use crate::factory::now;
use informer_runtime::idle::Idle;
use informer_runtime::sync::{Arc, Mutex, Weak};
use std::time::Instant;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

pub(super) struct Pool<C>(Arc<Shared<C>>);

struct Shared<C> {
    idle: Idle<C>,
    /// There is one as long as a connection lies idle.
    closer: Mutex<Option<AbortHandle>>,
}

impl<C> Default for Pool<C> {
    fn default() -> Self {
        Pool(Arc::new(Shared { idle: Idle::default(), closer: Mutex::default() }))
    }
}

impl<C: Send + 'static> Pool<C> {
    /// Keeps a connection until its time is over.
    pub(super) fn keep(&self, connection: C) {
        self.0.idle.keep_at(connection, now());
        let mut closer = self.0.closer.lock();
        // One that ended without a word was on a runtime that is gone.
        if closer.as_ref().is_none_or(AbortHandle::is_finished) {
            *closer = Some(tokio::spawn(close(Arc::downgrade(&self.0))).abort_handle());
        }
    }

    pub(super) fn take(&self) -> Option<C> {
        self.0.idle.take_at(now())
    }

    /// Drops all, and leaves no task behind.
    pub(super) fn clear(&self) {
        // In this order: who keeps one meanwhile starts a closer of its own.
        self.0.end();
        self.0.idle.clear();
    }
}

impl<C> Shared<C> {
    fn end(&self) {
        if let Some(closer) = self.closer.lock().take() {
            closer.abort();
        }
    }
}

impl<C> Drop for Shared<C> {
    fn drop(&mut self) {
        self.end();
    }
}

async fn close<C>(pool: Weak<Shared<C>>) {
    while let Some(old) = next(&pool) {
        sleep_until(old.into()).await;
    }
}

/// Drops what is old, and says when more will be; `None` if there is nothing to wait for, and then the next connection has a
/// new closer.
fn next<C>(pool: &Weak<Shared<C>>) -> Option<Instant> {
    let pool = pool.upgrade()?;
    pool.idle.drop_old(now());
    // Under the lock, so that who keeps one meanwhile sees whether this goes on.
    let mut closer = pool.closer.lock();
    let old = pool.idle.next_old();
    if old.is_none() {
        *closer = None;
    }
    old
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_runtime::idle::IDLE_FOR;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::time::sleep;

    /// Its clones tell whether it is closed.
    type Connection = Arc<()>;

    fn is_open(connection: &Connection) -> bool {
        Arc::strong_count(connection) > 1
    }

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    const MOMENT: Duration = Duration::from_millis(2);

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_when_its_time_is_over_though_nobody_asks() {
        let pool = Pool::default();
        let [first, second] = [Connection::default(), Connection::default()];
        pool.keep(first.clone());
        sleep(IDLE_FOR / 2).await;
        pool.keep(second.clone());
        assert_eq!(tasks(), 1, "one timer for all");
        sleep(IDLE_FOR / 2 - MOMENT).await;
        assert!(is_open(&first));
        sleep(2 * MOMENT).await;
        assert!(!is_open(&first) && is_open(&second));
        sleep(IDLE_FOR / 2).await;
        assert!(!is_open(&second));
        assert_eq!(tasks(), 0, "nothing is left to close");

        pool.keep(first.clone());
        sleep(IDLE_FOR + MOMENT).await;
        assert!(!is_open(&first), "the next one has a timer again");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_used_again_is_as_young_as_its_last_use() {
        let pool = Pool::default();
        let connection = Connection::default();
        pool.keep(connection.clone());
        sleep(IDLE_FOR / 2).await;
        pool.keep(pool.take().expect("it is young"));
        sleep(IDLE_FOR - MOMENT).await;
        assert!(is_open(&connection));
        sleep(2 * MOMENT).await;
        assert!(!is_open(&connection));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_is_cleared_or_dropped_leaves_no_task() {
        let pool = Pool::default();
        for clears in [true, false] {
            let connection = Connection::default();
            pool.keep(connection.clone());
            assert_eq!(tasks(), 1);
            if clears {
                pool.clear();
                tokio::task::yield_now().await;
                assert!(!is_open(&connection) && tasks() == 0);
            }
        }
        drop(pool);
        tokio::task::yield_now().await;
        assert_eq!(tasks(), 0);
    }

    #[test]
    fn a_timer_that_went_with_its_runtime_is_made_anew() {
        let pool = Pool::default();
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime().block_on(async { pool.keep(Connection::default()) });
        let connection = Connection::default();
        runtime().block_on(async {
            pool.keep(connection.clone());
            sleep(IDLE_FOR + MOMENT).await;
        });
        assert!(!is_open(&connection));
    }
}
