//! Which kernels keep which of their parameters, by their PTX.

use super::*;
use crate::device::nvcc::ptx;

/// The numbers of the parameters that the kernel `k` may keep.
fn kept(text: &str) -> String {
    let text =
        format!(".target sm_90\n.global .u64 g; .extern .shared .b8 dyn[]; .shared .b8 s[64];\n{text}");
    let module = ptx::read(&text).unwrap();
    let all = of_module(&module, |_, number| number == 2);
    let words = all["k"].iter().map(|words| words.split(' ').nth(7).unwrap());
    words.map(|number| number.trim_end_matches(':')).collect()
}

fn check(body: &str, expected: &str) {
    let text = format!(
        ".entry k(.param .u64 p, .param .u64 q, .param .u64 n) {{ ld.param.u64 %p, [p]; ld.param.u64 %q, [q]; ld.param.u64 %n, [n]; {body} }}"
    );
    assert_eq!(kept(&text), expected, "{body}");
}

#[test]
fn what_keeps_an_address() {
    check("st.global.u64 [%q], %p;", "1");
    check(
        "cvta.to.global.u64 %a, %p; add.s64 %a, %a, 8; st.global.v2.u64 [g], {%a, %q};",
        "12",
    );
    check("atom.global.exch.b64 %a, [%q], %p;", "1");
    check("red.global.add.u64 [%q], %p;", "1");
    check("cvt.u32.u64 %a, %p; st.u32 [%q], %a;", "1");
    check("shr.u64 %a, %p, 20; and.b64 %a, %a, 255; st.u64 [%q], %a;", "1");
    check("mov.b64 {%lo, %hi}, %p; st.v2.u32 [%q], {%lo, %hi};", "1");
    check("shfl.sync.idx.b32 %a, %p, 0, 31, -1; st.u32 [%q], %a;", "1");
    check("foo.u64 %p;", "1");
    check("sust.b.1d.b64.trap [g, {%n}], %p;", "1");
    check(
        "mov.u64 %a, s; st.shared.u64 [%a+8], %p; ld.shared.u64 %b, [%a+8]; st.u64 [%q], %b;",
        "1",
    );
    check(
        "mov.u64 %a, dyn; st.u64 [%a], %p; cvta.shared.u64 %b, %a; st.u64 [%q], %b;",
        "1",
    );
    check(
        ".local .b8 d[16]; mov.u64 %a, d; st.local.u64 [%a], %p; ld.local.u64 %b, [%a]; st.u64 [%q], %b;",
        "1",
    );
    check("bra L; L: st.u64 [%q], %b; mov.u64 %b, %p;", "1");
}

#[test]
fn what_keeps_none() {
    check(
        "ld.global.f32 %f, [%p]; st.global.f32 [%q+4], %f; st.global.u64 [%q], %n;",
        "",
    );
    check(
        "mad.wide.s32 %a, %r, 4, %p; ld.u64 %b, [%a]; st.u64 [%b], %n;",
        "",
    );
    check("setp.eq.u64 %c, %p, 0; and.b64 %a, %p, 15; st.u64 [%q], %a;", "");
    check("atom.global.add.u32 %a, [%p], %r; st.u32 [%q], %a;", "");
    check(
        ".local .b8 d[16]; mov.u64 %a, d; add.u64 %b, %a, 8; st.u64 [%a], %p; st.u64 [%b], %n; ld.u64 %c, [%b]; st.u64 [%q], %c;",
        "",
    );
    check(
        "cp.async.ca.shared.global [%a], [%p], 16; prefetch.global.L2 [%q];",
        "",
    );
    check(
        "{ .param .b64 a; st.param.b64 [a], %p; call (r), vprintf, (a, a); }",
        "1",
    );
}

#[test]
fn through_calls_and_structures() {
    let print = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);";
    let call = "{ .param .b64 a; st.param.b64 [a], %p; .param .b64 r; call (r), f, (a); ld.param.b64 %a, [r]; st.u64 [g], %a; }";
    let kernel = format!(".entry k(.param .u64 p) {{ ld.param.u64 %p, [p]; {call} }}");
    let with = |functions: &str| kept(&format!("{functions} {kernel}"));
    assert_eq!(
        with(".func (.param .b64 r) f(.param .b64 x) { ld.param.b64 %x, [x]; st.param.b64 [r], %x; ret; }"),
        "1"
    );
    assert_eq!(
        with(
            ".func (.param .b64 r) f(.param .b64 x) { ld.param.b64 %x, [x]; ld.u64 %x2, [%x]; st.param.b64 [r], %x2; }"
        ),
        ""
    );
    assert_eq!(with(".func (.param .b64 r) f(.param .b64 x);"), "1");
    assert_eq!(with(".func (.reg .b64 r) f(.reg .b64 x) { mov.b64 r, x; }"), "1");
    assert_eq!(
        with(&format!(
            "{print} .func (.param .b64 r) f(.param .b64 x) {{ {{ .param .b64 a; ld.param.b64 %x, [x]; st.param.b64 [a], %x; call (q), vprintf, (a, a); }} }}"
        )),
        ""
    );
    let structure = |body: &str| kept(&format!(".entry k(.param .align 8 .b8 v[24]) {{ {body} }}"));
    assert_eq!(structure("ld.param.u64 %a, [v+8]; st.u64 [g], %a;"), "1");
    assert_eq!(
        structure("ld.param.u32 %a, [v+8]; ld.param.u64 %b, [v]; st.u32 [%b], %a;"),
        ""
    );
    assert_eq!(
        structure("ld.param.v2.u32 {%a, %b}, [v+8]; st.u32 [g], %a; st.u32 [g+4], %b;"),
        "1"
    );
    assert_eq!(
        structure("mov.b64 %a, v; add.s64 %b, %a, 16; ld.param.u64 %c, [%b]; st.u64 [g], %c;"),
        "1"
    );
}
