use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

const DAY: u64 = 86_400;

fn options(dir: Option<PathBuf>, max_bytes: u64) -> StoreOptions {
    StoreOptions { dir, max_bytes, max_age_s: 30 * DAY }
}

fn key(tenant: &str, id: &str) -> Key {
    Key { tenant: tenant.to_owned(), id: id.to_owned() }
}

/// A response that said its own id when asked "go on".
fn record(tenant: &str, id: &str, previous: Option<&str>) -> Record {
    Record {
        id: id.to_owned(),
        tenant: tenant.to_owned(),
        previous: previous.map(str::to_owned),
        document: json!({"id": id, "output": [{"id": format!("out-{id}"), "text": id}]}),
        input: [json!({"id": format!("in-{id}"), "text": "go on"})].into(),
    }
}

fn texts(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["text"].as_str().unwrap()).collect()
}

#[test]
fn a_conversation_is_recalled_in_order_and_by_its_tenant_only() {
    let mut store = ResponseStore::open(options(None, 1 << 20)).unwrap();
    for (id, previous) in [("a", None), ("b", Some("a")), ("c", Some("b")), ("x", Some("a"))] {
        store.keep(&record("ann", id, previous), 0).unwrap();
    }
    let Conversation::Whole(items) = store.recall(&key("ann", "c")).unwrap() else { panic!() };
    assert_eq!(texts(&items), ["go on", "a", "go on", "b", "go on", "c"]);
    let items = store.input_items(&key("ann", "c")).unwrap().unwrap();
    assert_eq!(texts(&items), ["go on", "a", "go on", "b", "go on"]);
    for id in ["a", "c"] {
        let missing = Conversation::Broken { missing: id.to_owned(), items: Vec::new() };
        assert_eq!(store.recall(&key("bob", id)).unwrap(), missing);
        assert_eq!(store.input_items(&key("bob", id)).unwrap(), None);
        assert!(database::find_by_item(&store.database, "bob", &format!("out-{id}")).unwrap().is_none());
        assert_eq!(database::delete(&store.database, "bob", id).unwrap(), None);
    }
    assert!(database::delete(&store.database, "ann", "a").unwrap().is_some());
    let Conversation::Broken { missing, items } = store.recall(&key("ann", "c")).unwrap() else { panic!() };
    assert_eq!((missing.as_str(), texts(&items)), ("a", vec!["go on", "b", "go on", "c"]));
    let left: i64 = store.database.query_row("SELECT count(*) FROM items", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 6, "items go with their response");
}

#[test]
fn a_conversation_that_is_too_long_is_not_read_to_its_end() {
    let mut store = ResponseStore::open(options(None, 1 << 30)).unwrap();
    let id = |turn: usize| format!("r{turn}");
    for turn in 0..=MAX_CHAIN {
        let previous = turn.checked_sub(1).map(id);
        store.keep(&record("ann", &id(turn), previous.as_deref()), 0).unwrap();
    }
    let recalled = |turn| store.recall(&key("ann", &id(turn))).unwrap();
    assert!(matches!(recalled(MAX_CHAIN - 1), Conversation::Whole(items) if items.len() == 2 * MAX_CHAIN));
    assert_eq!(recalled(MAX_CHAIN), Conversation::TooLong);
}

#[test]
fn at_the_bound_the_oldest_of_the_tenant_that_holds_most_goes() {
    let mut store = ResponseStore::open(options(None, 1 << 20)).unwrap();
    store.keep(&record("bob", "b", None), 0).unwrap();
    let bytes = store.held["bob"];
    store.options.max_bytes = 4 * bytes;
    for id in ["1", "2", "3", "4", "5"] {
        store.keep(&record("ann", id, None), 0).unwrap();
    }
    assert_eq!((store.held["ann"], store.held["bob"]), (3 * bytes, bytes));
    let found = |tenant, id| database::find(&store.database, tenant, id).unwrap().is_some();
    assert!(found("bob", "b"), "who holds little keeps it");
    assert_eq!(["1", "2", "3", "4", "5"].map(|id| found("ann", id)), [false, false, true, true, true]);
    assert_eq!(database::held(&store.database).unwrap(), store.held);
}

#[test]
fn a_response_larger_than_the_bound_is_not_kept_and_costs_nobody_theirs() {
    let mut store = ResponseStore::open(options(None, 1 << 20)).unwrap();
    for (tenant, id) in [("ann", "a"), ("bob", "b")] {
        store.keep(&record(tenant, id, None), 0).unwrap();
    }
    let held = store.held.clone();
    store.options.max_bytes = held.values().sum();
    let text = "x".repeat(store.options.max_bytes as usize);
    let large = Record { input: [json!({"id": "in-c", "text": text})].into(), ..record("ann", "c", None) };
    store.keep(&large, 0).unwrap();
    let found = |tenant, id| database::find(&store.database, tenant, id).unwrap().is_some();
    let kept = [("ann", "a"), ("bob", "b"), ("ann", "c")].map(|(tenant, id)| found(tenant, id));
    assert_eq!(kept, [true, true, false]);
    assert_eq!(store.held, held);
    assert_eq!(database::held(&store.database).unwrap(), held);
}

#[test]
fn what_is_too_old_goes() {
    let mut store = ResponseStore::open(options(None, 1 << 20)).unwrap();
    store.keep(&record("ann", "old", None), DAY).unwrap();
    store.keep(&record("ann", "new", None), 2 * DAY).unwrap();
    store.expire(31 * DAY).unwrap();
    assert!(database::find(&store.database, "ann", "old").unwrap().is_some());
    store.expire(31 * DAY + 1).unwrap();
    assert!(database::find(&store.database, "ann", "old").unwrap().is_none());
    assert!(database::find(&store.database, "ann", "new").unwrap().is_some());
    assert_eq!(database::held(&store.database).unwrap(), store.held);
}

#[test]
fn a_file_is_its_owners_alone_and_survives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a/b");
    let mut store = ResponseStore::open(options(Some(dir.clone()), 1 << 20)).unwrap();
    store.keep(&record("ann", "a", None), 7).unwrap();
    for entry in dir.read_dir().unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
    }
    let held = store.held.clone();
    drop(store);
    let store = ResponseStore::open(options(Some(dir.clone()), 1 << 20)).unwrap();
    assert_eq!(store.held, held);
    assert!(
        matches!(store.recall(&key("ann", "a")).unwrap(), Conversation::Whole(items) if items.len() == 2)
    );

    store.database.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let error = ResponseStore::open(options(Some(dir), 1 << 20)).err().expect("it is of a later program");
    assert!(matches!(error, StoreError::Format { found: 99, .. }), "{error}");
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no database at all, but long enough to be read as the head of one").unwrap();
    let error = ResponseStore::open(options(Some(file.clone()), 1)).err().expect("it is a file");
    assert!(error.to_string().starts_with(&format!("cannot use {}", file.display())), "{error}");
    std::fs::rename(&file, folder.path().join("responses.sqlite")).unwrap();
    let error = ResponseStore::open(options(Some(folder.path().into()), 1)).err().expect("it is no database");
    assert!(matches!(error, StoreError::Database(_)), "{error}");
}

#[actix::test]
async fn a_running_response_is_seen_cancelled_and_then_kept() {
    let store = ResponseStore::start(options(None, 1 << 20)).unwrap();
    let (cancel, mut cancelled) = oneshot::channel();
    let ours = key("ann", "a");
    let document = json!({"status": "in_progress"});
    let running = Record { document: document.clone(), ..record("ann", "a", None) };
    store.send(Begin { record: running, cancel }).await.unwrap();
    let fetched = |key| async { store.send(Fetch(key)).await.unwrap().unwrap() };
    assert_eq!(fetched(ours.clone()).await, Some(document));
    assert_eq!(fetched(key("bob", "a")).await, None);
    let cancel = |key| async { store.send(Cancel(key)).await.unwrap().unwrap() };
    assert!(matches!(cancel(key("bob", "a")).await, Cancelled::Unknown));
    assert!(cancelled.try_recv().is_err(), "only its own tenant cancels it");
    let Cancelled::Ending(ended) = cancel(ours.clone()).await else { panic!() };
    cancelled.await.unwrap();
    let kept = record("ann", "a", None);
    store.send(Keep(kept.clone())).await.unwrap().unwrap();
    assert_eq!(ended.await.unwrap(), kept.document);
    assert_eq!(fetched(ours.clone()).await, Some(kept.document));
    assert!(matches!(cancel(ours.clone()).await, Cancelled::Over));
    let item = store.send(FindItem(key("ann", "out-a"))).await.unwrap().unwrap();
    assert_eq!(item.unwrap()["text"], "a");
    for came_of_it in [Deleted::Gone, Deleted::Unknown] {
        assert_eq!(store.send(Delete(ours.clone())).await.unwrap().unwrap(), came_of_it);
    }
    assert_eq!(fetched(ours).await, None);
}

#[actix::test]
async fn what_is_asked_of_a_running_response_is_answered_by_what_is_known_of_it() {
    let store = ResponseStore::start(options(None, 1 << 20)).unwrap();
    store.send(Keep(record("ann", "a", None))).await.unwrap().unwrap();
    let (cancel, _cancelled) = oneshot::channel();
    store.send(Begin { record: record("ann", "b", Some("a")), cancel }).await.unwrap();
    let delete = async |tenant| store.send(Delete(key(tenant, "b"))).await.unwrap().unwrap();
    let recall = async |tenant| store.send(Recall(key(tenant, "b"))).await.unwrap().unwrap();
    let items = async |tenant| store.send(InputItems(key(tenant, "b"))).await.unwrap().unwrap();
    assert_eq!((delete("ann").await, delete("bob").await), (Deleted::InProgress, Deleted::Unknown));
    assert_eq!(recall("ann").await, Conversation::InProgress);
    assert!(matches!(recall("bob").await, Conversation::Broken { missing, .. } if missing == "b"));
    assert_eq!(texts(&items("ann").await.unwrap()), ["go on", "a", "go on"]);
    assert_eq!(items("bob").await, None);
    store.send(Forget(key("ann", "b"))).await.unwrap();
    assert_eq!((delete("ann").await, items("ann").await), (Deleted::Unknown, None));
}
