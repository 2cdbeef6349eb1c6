use axum::http::HeaderValue;
use futures::FutureExt;
use tokio::runtime::Builder;

use super::*;

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn access(users: Vec<User>) -> Access {
    let hosts = vec!["flows.example.net".to_owned()];
    Access::new(users, &HttpOptions { hosts, sign_in_failures_per_minute: 100, ..HttpOptions::default() })
}

fn ann() -> User {
    let hash = |text| hash_password(text).expect("a hash");
    User::new("ann", Role::Analyst, Some(hash("correct horse")), vec![hash("battery")]).expect("a user")
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| ((*name).parse().expect("a name"), HeaderValue::from_str(value).expect("a value")))
        .collect()
}

#[test]
fn who_begins_many_sessions_ends_their_own() {
    let mut sessions = HashMap::new();
    let begin = |sessions: &mut HashMap<String, Session>, user: &str, number: usize| {
        let session = Session { user: user.to_owned(), password: String::new(), began: Instant::now() };
        sessions.insert(format!("{user}{number}"), session)
    };
    begin(&mut sessions, "bob", 0);
    for number in 0..SESSIONS_PER_USER_MAX {
        assert_eq!(too_many(&sessions, "ann"), None);
        begin(&mut sessions, "ann", number);
    }
    assert_eq!(too_many(&sessions, "ann").as_deref(), Some("ann0"));
    assert_eq!(too_many(&sessions, "bob"), None);
    // when all places are taken, whoever has most gives one up
    for number in sessions.len()..SESSIONS_MAX {
        begin(&mut sessions, &format!("u{}", number % 100), number);
    }
    assert_eq!(too_many(&sessions, "new").as_deref(), Some("ann0"));
}

#[test]
fn only_names_of_this_machine_are_ours_without_users() {
    let access = access(Vec::new());
    for host in ["localhost:2080", "127.0.0.1:2080", "127.8.8.8", "[::1]:2080", "flows.example.net", "Localhost"] {
        assert!(access.check_origin(&Method::GET, &headers(&[("host", host)])).is_ok(), "{host}");
    }
    for host in ["evil.example", "192.0.2.1:2080", "", "localhost.evil.example", "[::2]:80", "127.0.0.1.evil.example"] {
        assert!(access.check_origin(&Method::GET, &headers(&[("host", host)])).is_err(), "{host}");
    }
}

#[test]
fn a_page_of_another_site_changes_nothing() {
    let access = access(Vec::new());
    let check = |more: &[(&'static str, &str)]| {
        let all = headers(&[&[("host", "localhost:2080")], more].concat());
        access.check_origin(&Method::POST, &all).is_ok()
    };
    assert!(check(&[]) && check(&[("sec-fetch-site", "same-origin")]) && check(&[("origin", "http://localhost:2080")]));
    assert!(!check(&[("sec-fetch-site", "cross-site")]) && !check(&[("sec-fetch-site", "same-site")]));
    assert!(!check(&[("origin", "http://evil.example")]) && !check(&[("origin", "null")]));
    assert!(!check(&[("origin", "http://localhost:8000")]));
}

#[test]
fn tokens_and_sessions_say_who_asks() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let access = access(vec![ann()]);
    let asker = |pairs: &[(&'static str, &str)]| runtime.block_on(access.asker(&headers(pairs), FROM));
    assert!(asker(&[]).expect("nobody").is_none());
    let found = asker(&[("authorization", "Bearer ann:battery")]).expect("ann").expect("ann");
    assert_eq!((found.name.as_str(), found.role), ("ann", Role::Analyst));
    for wrong in ["Bearer ann:horse", "Bearer bob:battery", "Bearer battery", "Bearer ann:correct horse"] {
        assert_eq!(asker(&[("authorization", wrong)]).expect_err("wrong").status, 401, "{wrong}");
    }
    let sign_in = |name, password| runtime.block_on(access.sign_in(name, password, FROM));
    assert!(sign_in("ann", "battery").is_err() && sign_in("bob", "correct horse").is_err());
    let (_, cookie) = sign_in("ann", "correct horse").expect("a session");
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(asker(&[("cookie", &format!("a=b; {pair}"))]).expect("ann").expect("ann").name, "ann");
    assert!(asker(&[("cookie", "weir_session=0000")]).expect("nobody").is_none());
    access.sign_out(&headers(&[("cookie", pair)]));
    assert!(asker(&[("cookie", pair)]).expect("nobody").is_none());
}

#[test]
fn a_session_lasts_until_its_end_and_no_longer_than_it_may() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let begin = |access: &Access| {
        let (_, cookie) = runtime.block_on(access.sign_in("ann", "correct horse", FROM)).expect("a session");
        headers(&[("cookie", cookie.split(';').next().expect("a pair"))])
    };
    let access = access(vec![ann()]);
    let cookie = begin(&access);
    let id = access.session(&cookie).expect("a session lets in");
    assert!(access.has_session(&id));
    access.sign_out(&cookie);
    assert!(!access.has_session(&id), "it was ended");
    // a token lets in whatever the cookie is
    let mut both = cookie.clone();
    both.extend(headers(&[("authorization", "Bearer ann:battery")]));
    assert_eq!(access.session(&both), None);
    let short = HttpOptions { session_length: weir_chain::TimeSpan::from_millis(0), ..HttpOptions::default() };
    let access = Access::new(vec![ann()], &short);
    let id = access.session(&begin(&access)).expect("a session");
    assert!(!access.has_session(&id), "it has expired");
}

#[test]
fn a_role_may_what_lesser_ones_may() {
    let asker = |role| Asker { name: "ann".to_owned(), role, view: Arc::default(), from: None };
    assert!(asker(Role::Admin).needs(Role::Analyst).is_ok() && asker(Role::Viewer).needs(Role::Viewer).is_ok());
    let problem = asker(Role::Viewer).needs(Role::Analyst).expect_err("less");
    assert_eq!((problem.status, problem.detail.as_str()), (403, "'ann' is viewer, and this takes analyst"));
}

#[test]
fn hashes_are_not_shown() {
    assert!(!format!("{:?}", access(vec![ann()])).contains("argon2"));
}

#[test]
fn who_is_no_user_any_more_has_no_session_and_no_token() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let access = access(vec![ann()]);
    let (_, cookie) = runtime.block_on(access.sign_in("ann", "correct horse", FROM)).expect("a session");
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let asker = |pairs: &[(&'static str, &str)]| runtime.block_on(access.asker(&headers(pairs), FROM));
    let (by_cookie, by_token) = (("cookie", pair.as_str()), ("authorization", "Bearer ann:battery"));
    assert!(asker(&[by_cookie]).expect("ann").is_some() && asker(&[by_token]).is_ok());
    // the same passwords in other hashes are other passwords
    access.replace_users(vec![User { password: ann().password, ..ann() }]);
    assert!(asker(&[by_cookie]).expect("nobody").is_none() && asker(&[by_token]).is_ok());
    let other = User { name: "bob".to_owned(), ..ann() };
    access.replace_users(vec![other]);
    assert!(asker(&[by_cookie]).expect("nobody").is_none());
    assert_eq!(asker(&[by_token]).expect_err("no user").status, 401);
}

#[test]
fn what_lasts_is_told_of_other_users_and_questions_of_those_with_less_rights_end() {
    let access = access(Vec::new());
    let mut watched = access.watch_users();
    let login = ann();
    let mut replaced = |user: User| {
        let lost = access.replace_users(vec![user]);
        assert!(watched.has_changed().expect("it is there"));
        watched.mark_unchanged();
        lost
    };
    assert_eq!(replaced(login.clone()), [LOCAL], "nobody on this machine is asked who they are");
    let narrow = |rows: &str| Arc::new(View::of(weir_filter::parse(rows).expect("a filter"), None));
    assert!(replaced(login.clone()).is_empty());
    let more = [login.tokens.clone(), vec![hash_password("staple").expect("a hash")]].concat();
    assert!(replaced(User { role: Role::Admin, tokens: more, ..login.clone() }).is_empty(), "more is no less");
    assert_eq!(replaced(login.clone()), ["ann"], "a role and a token are taken away");
    let changes: [fn(&mut User); 4] = [
        |user| user.role = Role::Viewer,
        |user| user.tokens.clear(),
        |user| user.password = None,
        |user| user.name = "bob".to_owned(),
    ];
    for change in changes {
        replaced(login.clone());
        let mut other = login.clone();
        change(&mut other);
        assert_eq!(replaced(other), ["ann"]);
    }
    replaced(User { view: narrow("proto tcp"), ..login.clone() });
    assert!(replaced(User { view: narrow("proto tcp"), ..login.clone() }).is_empty(), "the same rule");
    assert_eq!(replaced(User { view: narrow("proto udp"), ..login.clone() }), ["ann"]);
    assert_eq!(replaced(login), ["ann"], "a view that was part of it is another");
}

#[test]
fn a_hash_holds_its_place_when_its_client_leaves() {
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().expect("a runtime");
    let access = access(Vec::new());
    runtime.block_on(async {
        // the hash waits until the only thread is free
        let (release, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let mut checking = Box::pin(access.verified(Vec::new(), "battery"));
        assert!(checking.as_mut().now_or_never().is_none());
        drop(checking);
        assert_eq!(access.hashing.available_permits(), HASHES_AT_ONCE - 1);
        drop(release);
        busy.await.expect("it ends").expect_err("nothing is sent");
        let all = access.hashing.acquire_many(HASHES_AT_ONCE as u32).await;
        drop(all.expect("the hash ends"));
    });
}

#[test]
fn a_login_that_lasts_is_of_the_user_as_it_is_now() {
    let access = access(Vec::new());
    let local = Asker::local(FROM);
    assert!(access.again(&local, None).is_some_and(|asker| asker.is_local()));
    let login = ann();
    let before = Asker::of(&login, FROM);
    access.replace_users(vec![User { role: Role::Viewer, ..login.clone() }]);
    assert!(access.again(&local, None).is_none(), "there are users now");
    let now = access.again(&before, Some(&login)).expect("the same secrets");
    assert_eq!((now.name.as_str(), now.role, now.from), ("ann", Role::Viewer, Some(FROM)));
    let scram = Some("another".to_owned());
    for other in [
        User { name: "bob".to_owned(), ..login.clone() },
        User { password: ann().password, ..login.clone() },
        User { tokens: Vec::new(), ..login.clone() },
        User { scram, ..login.clone() },
    ] {
        access.replace_users(vec![other]);
        assert!(access.again(&before, Some(&login)).is_none());
    }
}

#[test]
fn guesses_are_limited_by_address_and_by_name_and_right_ones_are_not_counted() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let access = Access::new(vec![ann()], &HttpOptions { sign_in_failures_per_minute: 2, ..HttpOptions::default() });
    let sign_in = |name: &str, password: &str, from: &str| {
        let from = from.parse().expect("an address");
        runtime.block_on(access.sign_in(name, password, from)).map_or_else(|problem| problem.status, |_| 200)
    };
    for _ in 0..4 {
        assert_eq!(sign_in("ann", "correct horse", "192.0.2.1"), 200);
    }
    let guesses: Vec<_> = ["a", "b", "c"].into_iter().map(|guess| sign_in(guess, guess, "192.0.2.1")).collect();
    assert_eq!(guesses, [401, 401, 429]);
    assert_eq!(sign_in("ann", "correct horse", "192.0.2.1"), 429, "whoever guesses from there waits");
    assert_eq!(sign_in("ann", "correct horse", "192.0.2.2"), 200);
    let guesses: Vec<_> = (3..10).map(|host| sign_in("ann", "guess", &format!("192.0.2.{host}"))).collect();
    assert_eq!(guesses, [401, 401, 401, 401, 401, 401, 429], "a name is guessed from many addresses");
    let problem = runtime.block_on(access.sign_in("ann", "x", FROM)).expect_err("limited");
    assert!(problem.retry_after_s.is_some_and(|seconds| (1..=60).contains(&seconds)), "{problem:?}");
    let bearer = headers(&[("authorization", "Bearer bob:x")]);
    let guesses = (0..3).map(|_| runtime.block_on(access.asker(&bearer, FROM)).expect_err("wrong").status);
    assert_eq!(guesses.collect::<Vec<_>>(), [401, 401, 429]);
}
