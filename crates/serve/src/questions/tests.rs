use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime")
}

fn questions(time_limit_ms: i64) -> Questions {
    let time_limit = weir_chain::TimeSpan::from_millis(time_limit_ms as u64);
    let (waiting_max, per_user_max) = (2, 2);
    let options = QuestionOptions { at_once: 1, waiting_max, per_user_max, time_limit, ..Default::default() };
    Questions::new(&QuestionOptions { user_per_minute_max: 60, ..options }, Arc::default())
}

fn asker(name: &str) -> Asker {
    Asker::with_name(name)
}

/// Runs until it is stopped.
fn endless(turn: &Turn) -> Answered<()> {
    let _admitted = turn.enter(u64::MAX)?;
    while !turn.control.progress.is_stopped() {
        thread::yield_now();
    }
    Err(Problem::cancelled("stopped"))
}

/// Begins a question that runs until it is stopped.
fn begin_endless(runtime: &Runtime, questions: &Questions) -> tokio::task::JoinHandle<Answered<()>> {
    let asking = questions.clone();
    let task = runtime.spawn(async move { asking.answer(&asker("ann"), "endless".to_owned(), endless).await });
    wait_until(|| questions.counts().running == 1);
    task
}

fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_mins(1), "it does not happen");
        thread::yield_now();
    }
}

#[test]
fn a_client_that_leaves_cancels_its_question() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let task = begin_endless(&runtime, &questions);
    assert_eq!(questions.list()[0].user, "ann");
    task.abort();
    wait_until(|| questions.list().is_empty());
    assert_eq!((questions.counts().cancelled, questions.counts().running), (1, 0));
}

#[test]
fn the_audit_has_all_of_a_question_and_the_list_says_what_it_leaves_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.jsonl");
    let options = crate::audit::AuditOptions { file: Some(path.clone()), ..Default::default() };
    let audit = AuditLog::open(options).expect("opened");
    let (runtime, questions) = (runtime(), Questions::new(&QuestionOptions::default(), Arc::new(audit)));
    let text = format!("/* {} */ SELECT password FROM secrets", "x".repeat(2500));
    let asked = questions.clone();
    let work = move |_: &Turn| Ok(asked.list()[0].text.clone());
    let listed = runtime.block_on(questions.answer(&asker("ann"), text.clone(), work)).expect("an answer");
    let left_out = text.len() - LISTED_LETTERS_MAX;
    assert_eq!(listed, format!("{}… ({left_out} letters more)", &text[..LISTED_LETTERS_MAX]));
    let line = std::fs::read_to_string(&path).expect("the audit");
    assert!(line.contains(&text), "{line}");
}

#[test]
fn too_many_questions_of_one_user_are_refused_and_others_are_not() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let ask = |user: &'static str| {
        let asking = questions.clone();
        runtime.spawn(async move { asking.answer(&asker(user), "endless".to_owned(), endless).await })
    };
    let first = ask("ann");
    wait_until(|| questions.counts().running == 1);
    let second = ask("ann");
    wait_until(|| questions.counts().waiting == 1);
    let refused = runtime.block_on(ask("ann")).expect("a task").expect_err("too many");
    assert_eq!(refused.status, 429);
    let third = ask("bob");
    wait_until(|| questions.counts().waiting == 2);
    let refused = runtime.block_on(ask("carl")).expect("a task").expect_err("too many");
    assert_eq!(refused.status, 503);
    // those that read little have a place of their own to wait
    let quick = |turn: &Turn| turn.enter_quick().map(|_| ());
    runtime.block_on(questions.answer(&asker("dora"), "quick".to_owned(), quick)).expect("an answer");
    questions.end(Duration::from_mins(1));
    for task in [first, second, third] {
        assert_eq!(runtime.block_on(task).expect("a task").expect_err("cancelled").status, 409);
    }
    assert_eq!((questions.counts().refused, questions.counts().cancelled), (2, 3));
}

#[test]
fn a_question_that_reads_little_does_not_wait_for_long_ones() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let long = begin_endless(&runtime, &questions);
    let quick = |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        Ok(turn.inner.admitted())
    };
    let both = runtime.block_on(questions.answer(&asker("bob"), "quick".to_owned(), quick)).expect("an answer");
    assert_eq!(both, (2, 0));
    long.abort();
}

#[test]
fn a_question_ends_at_its_time_limit() {
    let (runtime, questions) = (runtime(), questions(20));
    let problem =
        runtime.block_on(questions.answer(&asker("ann"), "endless".to_owned(), endless)).expect_err("too long");
    assert_eq!(problem.status, 504);
    wait_until(|| questions.list().is_empty());
}

/// Its thread plans or computes, and cannot be interrupted.
#[test]
fn a_question_that_has_ended_keeps_its_turn_until_its_threads_have_ended() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let (release, busy) = mpsc::channel::<()>();
    let work = move |turn: &Turn| -> Answered<()> {
        let admitted = turn.enter(u64::MAX)?;
        turn.note_wait(move || {
            let _ = busy.recv();
        });
        turn.leave(admitted);
        Err(Problem::time("too long"))
    };
    let problem = runtime.block_on(questions.answer(&asker("ann"), "busy".to_owned(), work)).expect_err("too long");
    assert_eq!(problem.status, 504);
    assert_eq!((questions.list().len(), questions.counts().running), (1, 1));
    // the only turn is not free, so the next one waits; together they are as many as one user may have
    let asking = questions.clone();
    let next = runtime.spawn(async move { asking.answer(&asker("ann"), "next".to_owned(), endless).await });
    wait_until(|| questions.counts().waiting == 1);
    let third = runtime.block_on(questions.answer(&asker("ann"), "third".to_owned(), |_| Ok(())));
    assert_eq!(third.expect_err("too many").status, 429);
    drop(release);
    wait_until(|| questions.list().len() == 1 && questions.counts().waiting == 0);
    assert_eq!(questions.list()[0].text, "next");
    next.abort();
    wait_until(|| questions.list().is_empty() && questions.counts().running == 0);
}

#[test]
fn a_panic_is_a_problem_of_its_question_only() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let work = |_: &Turn| -> Answered<()> { panic!("offset {}", 7) };
    let problem = runtime.block_on(questions.answer(&asker("ann"), "bad".to_owned(), work)).expect_err("a panic");
    assert_eq!((problem.status, problem.detail.as_str()), (500, "the question panicked: offset 7"));
    let (sender, given) = mpsc::channel();
    let work = move |turn: &Turn| {
        let _admitted = turn.enter(u64::MAX)?;
        sender.send(7).map_err(|_| Problem::internal("nobody waits"))
    };
    runtime.block_on(questions.answer(&asker("ann"), "good".to_owned(), work)).expect("an answer");
    assert_eq!(given.recv(), Ok(7));
}

#[test]
fn who_asks_too_often_is_refused_for_a_while() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let ask = |name: &str, from: &str| {
        let asker = Asker { from: Some(from.parse().expect("an address")), ..asker(name) };
        let asked = runtime.block_on(questions.answer(&asker, "quick".to_owned(), |_| Ok(())));
        asked.map_or_else(|problem| (problem.status, problem.retry_after_s), |()| (200, None))
    };
    let (began, mut passed) = (Instant::now(), 0);
    let refused = loop {
        match ask("ann", &format!("192.0.2.{}", passed % 250)) {
            (200, _) => passed += 1,
            refused => break refused,
        }
    };
    // a sixth of 60 at once, and one for each second that the machine takes
    assert!((10..=11 + began.elapsed().as_secs()).contains(&passed), "{passed}");
    assert_eq!(refused, (429, Some(1)));
    assert_eq!(ask("bob", "192.0.2.77"), (200, None));
    assert_eq!(questions.counts().refused, 1);
}

#[test]
fn questions_of_who_is_no_user_any_more_end() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let task = begin_endless(&runtime, &questions);
    questions.cancel_of(&["bob".to_owned()]);
    assert!(!questions.inner.running().values().any(|question| question.progress.is_stopped()));
    questions.cancel_of(&["bob".to_owned(), "ann".to_owned()]);
    assert_eq!(runtime.block_on(task).expect("a task").expect_err("cancelled").status, 409);
}

#[test]
fn only_who_may_cancels() {
    let (runtime, questions) = (runtime(), questions(60_000));
    let task = begin_endless(&runtime, &questions);
    let id = questions.list()[0].id;
    let of_another = questions.cancel(id, |user| user == "bob").expect_err("of another");
    assert_eq!((of_another.status, of_another.detail), (404, format!("no question {id} runs")));
    assert_eq!(questions.cancel(id + 1, |_| true).expect_err("no such").status, 404);
    questions.cancel(id, |user| user == "ann").expect("cancelled");
    assert_eq!(runtime.block_on(task).expect("a task").expect_err("cancelled").status, 409);
}
