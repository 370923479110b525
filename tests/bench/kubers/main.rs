//! Measures kube-rs' watcher and reflector as ingest.py measures ours; prints the same line of JSON.
//!
//!     ingest URL COUNT EVENTS [--stream]
//!
//! The subscriber is the end of the reflector's stream: it counts what went through the store.

use std::{env, fs, mem::MaybeUninit, pin::pin, time::Duration, time::Instant};

use futures::StreamExt;
use kube::{
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{reflector, watcher, watcher::Event, WatchStreamExt},
    Api, Client, Config,
};

fn rss() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split_whitespace().nth(1).expect("a second field").parse().expect("a number");
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

fn cpu() -> f64 {
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    let used = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr());
        used.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().collect();
    let count: usize = arguments[2].parse().expect("COUNT");
    let events: usize = arguments[3].parse().expect("EVENTS");
    let mut how = watcher::Config::default();
    if arguments.iter().any(|argument| argument == "--stream") {
        how = how.streaming_lists();
    }
    let client = Client::try_from(Config::new(arguments[1].parse().expect("URL"))).expect("a client");
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kopf.dev", "v1", "KopfExample"), "kopfexamples");
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    let writer = reflector::store::Writer::new(kind);
    let store = writer.as_reader();

    let (before, began, burnt) = (rss(), Instant::now(), cpu());
    let mut stream = pin!(watcher(api, how).default_backoff().reflect(writer));
    let (mut synced, mut synced_cpu, mut held) = (0.0, 0.0, 0);
    let mut first = None;
    let mut live = 0;
    while let Some(event) = stream.next().await {
        match event.expect("the replay server does not fail") {
            Event::InitDone => {
                (synced, synced_cpu) = (began.elapsed().as_secs_f64(), cpu() - burnt);
                assert_eq!(store.len(), count);
                tokio::time::sleep(Duration::from_millis(200)).await;
                held = rss().saturating_sub(before);
            }
            Event::Apply(_) => {
                live += 1;
                first.get_or_insert_with(|| (Instant::now(), cpu()));
                if live == events {
                    break;
                }
            }
            Event::Delete(_) | Event::Init | Event::InitApply(_) => {}
        }
    }
    let (since, burnt) = first.expect("events");
    let measured = (live - 1) as f64;
    let line = serde_json::json!({
        "objects": store.len(),
        "events": live,
        "sync_per_s": (count as f64 / synced) as u64,
        "sync_per_cpu_s": (count as f64 / synced_cpu) as u64,
        "live_per_s": (measured / since.elapsed().as_secs_f64()) as u64,
        "live_per_cpu_s": (measured / (cpu() - burnt)) as u64,
        "rss_per_object_bytes": held / count as u64,
    });
    println!("{line}");
}
