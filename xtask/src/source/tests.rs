use super::*;

/// Functions of a source as `name:line+lines`.
fn functions(text: &str) -> Vec<String> {
    Source::new(text).functions().iter().map(|f| format!("{}:{}+{}", f.name, f.line, f.lines)).collect()
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(functions(text), expected, "in {text}");
}

#[test]
fn plain_functions_are_measured() {
    check("fn a() {}\nfn b() {\n}\n", &["a:1+1", "b:2+2"]);
    check("pub(crate) const unsafe fn a(\n x: u8,\n) -> u8 {\n x\n}", &["a:1+5"]);
    check("fn outer() {\n fn inner() {\n }\n}", &["outer:1+4", "inner:2+2"]);
}

#[test]
fn declarations_and_pointers_are_no_functions() {
    check("trait T { fn a(&self); fn b(&self) {\n} }", &["b:1+2"]);
    check("type F = fn(u8) -> u8;\nstruct S { f: fn() }", &[]);
    check("match r#fn as u8 { }", &[]);
    check("let fnord = { }; my_fn { }", &[]);
}

#[test]
fn braces_in_literals_do_not_count() {
    check("fn a() { \"}}}\" }\n", &["a:1+1"]);
    check("fn a() { \"\\\"}\" \n}\n", &["a:1+2"]);
    check("fn a() { '}'; '\\''; '{'; b'}'; '\\u{7D}'\n}", &["a:1+2"]);
    check("fn a() { '→'; '}'\n}", &["a:1+2"]);
    check("fn a() { ['\\'','}']\n}", &["a:1+2"]);
    check("fn a() { r\"}\\\"; \n}", &["a:1+2"]);
    check("fn a() { r#\"}\"} \"#; br##\"}\"# }\"##; cr\"}\"\n}", &["a:1+2"]);
    check("fn a() { \"line\n}\n\" \n}", &["a:1+4"]);
}

#[test]
fn braces_in_comments_do_not_count() {
    check("fn a() { // }\n}", &["a:1+2"]);
    check("fn a() { /* } /* } */ } */\n}", &["a:1+2"]);
    check("// fn a() { }\n/* fn b() {} */ /// fn c() {}\nfn d() {}", &["d:3+1"]);
    check("let s = \"fn a() {}\"; let u = \"//\"; fn b() {}", &["b:1+1"]);
}

#[test]
fn lifetimes_are_no_characters() {
    check("fn a<'a>(x: &'a str) -> &'a str { 'l: loop { break 'l; }\n}", &["a:1+2"]);
    check("fn a<'a,'b>(x: X<'a,'b>) {\n}", &["a:1+2"]);
}

#[test]
fn identifiers_that_end_in_r_start_no_raw_string() {
    check("fn a() { bar\"}\" }\nfn b() { for\"}\" \n}", &["a:1+1", "b:2+2"]);
    check("fn a() { attr(r\"}\") \n}", &["a:1+2"]);
}

#[test]
fn braces_in_signatures_are_not_the_body() {
    check("fn a() -> [u8; { 1 + 1 }] {\n\n}", &["a:1+3"]);
    check("fn a() -> Foo<u8, { N }> where T: Into<Vec<u8>>, {\n\n}", &["a:1+3"]);
    check("fn a(x: [u8; 1 << 4], f: impl Fn(u8) -> u8) -> Vec<Vec<u8>> {\n}", &["a:1+2"]);
    check("fn a() -> Result<impl Fn() -> u8, E> {\n}", &["a:1+2"]);
}

#[test]
fn functions_of_macros_are_measured() {
    check("macro_rules! m { ($n:ident) => { fn $n() {\n} } }", &["$n:1+2"]);
    check("macro_rules! m { ($n:ident $b:block) => { fn $n() $b } }\nfn a() {}", &["a:2+1"]);
}

#[test]
fn test_modules_are_left_out() {
    let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
    check(text, &["a:1+1", "c:8+1"]);
    assert_eq!(Source::new(text).lines_outside_tests(), 3);
    let text = "#[cfg(all(test, unix))]\n#[allow(x)]\npub mod tests {\n fn b() { '}'; }\n}\nfn c() {}";
    check(text, &["c:6+1"]);
    assert_eq!(Source::new(text).lines_outside_tests(), 1);
}

#[test]
fn only_test_modules_are_left_out() {
    check("#[cfg(test)]\nmod tests;\nfn a() {}\n", &["a:3+1"]);
    check("#[cfg(test)]\nfn a() {\n}\nmod b { fn c() {} }", &["a:2+2", "c:4+1"]);
    check("#[cfg(unix)]\nmod b { fn c() {} }", &["c:2+1"]);
    check("let s = \"#[cfg(test)] mod tests {\";\nfn a() {}\n}", &["a:2+1"]);
}

#[test]
fn lines_are_counted_as_wc_does() {
    for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\nb", 2)] {
        assert_eq!(Source::new(text).lines_outside_tests(), lines, "in {text:?}");
    }
}

#[test]
fn modules_are_named() {
    let source = Source::new("pub mod a;\nmod b { mod c; }\n// mod d;\nlet model = 1;");
    assert_eq!(source.modules(), [("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 2)]);
}
