//! What becomes of sockets: none stays open, none is left half read, and not only TCP has them.

use crate::front::*;
use crate::support::*;
use informer_tokio::{Client, Config, Factory, Key};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn after_a_stop_no_socket_is_open_though_the_client_lives() {
    let served = serve();
    let (addr, seen) = relay(&served).await;
    let client = client_of(&format!("http://{addr}"));
    let factory = Factory::new(client.clone());
    factory.informer_with(paged::<ConfigMap>());
    factory.informer_with(paged::<Widget>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    client.create("web", &ConfigMap::new("a", "1")).await.unwrap();
    eventually("both watches are open", || served.with(|server, _| server.open_calls()) == 2).await;
    assert!(seen.open() >= 3, "two watches, and what lists and writes left idle");
    factory.stop(STOP).await.unwrap();
    eventually("every connection is closed", || seen.open() == 0).await;
    client.get::<ConfigMap>(&Key::new("web", "a")).await.expect("it connects again");
}

/// B016
#[tokio::test]
async fn a_hundred_watches_one_after_another_have_one_socket_at_a_time() {
    let served = serve();
    let (addr, seen) = relay(&served).await;
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    for _ in 0..100 {
        eventually("a watch is open", || served.with(|server, _| server.open_calls()) == 1).await;
        eventually("it and the list's idle one are all", || seen.open() <= 2).await;
        served.with(|server, _| server.drop_watches());
    }
    // Some are seen while they close.
    assert!(seen.most() <= 8, "{} sockets at a time", seen.most());
    assert!(seen.accepted() > 100);
    factory.stop(STOP).await.unwrap();
    eventually("every connection is closed", || seen.open() == 0).await;
}

#[tokio::test]
async fn the_connection_of_a_failed_request_is_used_again_if_its_body_ended_and_closed_if_not() {
    let connections = Arc::new(AtomicUsize::new(0));
    let closed = Arc::new(AtomicUsize::new(0));
    let (count, gone) = (Arc::clone(&connections), Arc::clone(&closed));
    let asked = Arc::new(AtomicUsize::new(0));
    let addr = scripted(move |_, mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        let (gone, asked) = (Arc::clone(&gone), Arc::clone(&asked));
        async move {
            while peer.request().await.is_some() {
                match asked.fetch_add(1, Ordering::SeqCst) {
                    0 => peer.answer("503 Service Unavailable", &"x".repeat(10_000)).await,
                    // More than anybody reads of an error, and no end.
                    1 => {
                        peer.write("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 9000000\r\n\r\n").await;
                        peer.write(&"x".repeat(100_000)).await;
                    }
                    _ => std::future::pending().await,
                }
            }
            gone.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    factory.informer_with(paged::<ConfigMap>());
    factory.start();
    eventually("the third request has a connection of its own", || connections.load(Ordering::SeqCst) == 2).await;
    eventually("the one that was left half read is closed", || closed.load(Ordering::SeqCst) == 1).await;
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn connection_close_is_honoured() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = scripted(move |_, mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            peer.request().await;
            let body = r#"{"metadata":{"name":"a","namespace":"web"}}"#;
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            peer.write(&(head + body)).await;
            assert!(peer.request().await.is_none(), "nothing more is asked here");
        }
    })
    .await;
    let api = client_of(&format!("http://{addr}")).api::<ConfigMap>();
    for expected in 1..=3 {
        api.get(&Key::new("web", "a")).await.unwrap();
        assert_eq!(connections.load(Ordering::SeqCst), expected);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_on_a_unix_socket_is_reached_in_both_spellings() {
    use tokio::net::{TcpStream, UnixListener};

    let served = serve();
    put(&served, "web/a", "1");
    let path = std::env::temp_dir().join(format!("informer-tokio-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let behind = served.addr();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut socket, &mut server).await });
        }
    });
    let escaped = path.to_str().unwrap().replace('/', "%2F");
    for url in [format!("unix:{}", path.display()), format!("http+unix://{escaped}/")] {
        let factory = Factory::new(Client::connect(Config::from_url(&url).unwrap()).unwrap());
        let maps = factory.informer_with(paged::<ConfigMap>());
        factory.start();
        factory.synced(LONG).await.unwrap();
        assert_eq!(maps.lister().get(&Key::new("web", "a")).unwrap().text(), "1");
        assert_eq!(factory.client().get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "1");
        factory.stop(STOP).await.unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    let client = client_of(&format!("unix:{}", path.display()));
    let error = client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to {}: No such file", path.display())), "{error}");
}
