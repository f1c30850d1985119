//! Reports as the pass writes them, for the tests of what prints and draws them.

use mgb_catalogue::report::{Report, parse_all};

const STATIC: &str = r#"{"version":1,"source":"va.cu","tasks":[{"id":1,"function":"main","kind":"static",
    "ops":[{"op":"cudaMalloc","line":13,"objects":[1]},
           {"op":"launch","kernel":"add(float const*, float*, int)","line":17,"objects":[1,2]},
           {"op":"cudaFree","line":0}],
    "objects":[{"id":1,"name":"da","bytes":"4 * n"},{"id":2,"name":"","bytes":"4 * n"}],
    "need":{"peak":"2 * (4 * n)","grid":"(n + 255) / 256","block":"256","shared":"0"},
    "begin":{"line":12},"ends":[{"line":20},{"line":8,"file":"check.h"}],
    "movable":{"movable":true}}],
    "kernels":[{"kernel":"add(float const*, float*, int)","parts":"twin"},
               {"kernel":"scan(int*)","parts":"whole",
                "reasons":[{"code":"waits-for-blocks","text":"the kernel leaves a loop only by what other blocks write"}]}]}
"#;
const LAZY: &str = r#"{"version":1,"source":"run.cu","tasks":[{"id":1,"function":"run()","kind":"lazy",
    "reasons":[{"code":"allocated-elsewhere","text":"`state.data` is allocated in init()","line":30}],
    "ops":[{"op":"launch","kernel":"step(float*)","line":31}]}],
    "module_reasons":[{"code":"open-process","text":"it calls cuMemAlloc_v2"}]}
"#;

/// A static task, and a lazy one of a module that is lazy as a whole.
pub fn reports() -> Vec<Report> {
    // Between sections of two objects there may be padding.
    let section = [STATIC.as_bytes(), b"\0\0", LAZY.as_bytes()].concat();
    parse_all(&section).unwrap()
}

/// A task whose names hold what DOT and XML have a meaning for, and are long besides.
pub fn awkward() -> Vec<Report> {
    parse_all(AWKWARD.as_bytes()).unwrap()
}

const AWKWARD: &str = r#"{"version":1,"source":"dir\\a \"b\" &amp; c.cu","tasks":[{"id":7,"function":"run<A<&x, 'c'>>(\"s\\l\")",
    "kind":"lazy","for_others":true,
    "reasons":[{"code":"many-objects","text":"`p[i]` < `q` & \u0007 \"r\"","line":3}],
    "ops":[{"op":"launch","kernel":"void k<std::vector<int, std::allocator<int>>, std::less<int>, ends::in::a<very::long_name>>(int&&, float*)",
            "line":4,"objects":[1,9]}],
    "objects":[{"id":1,"name":"p","bytes":"n << 3"},{"id":2,"name":"table","bytes":"64","variable":true}]}]}
"#;
