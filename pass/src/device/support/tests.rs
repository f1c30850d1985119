//! Every body is parsed by LLVM, in one module, as a translation does it.
use std::collections::BTreeSet;
use std::ffi::CStr;

use inkwell::llvm_sys::core::*;

use super::super::runtime_stubs::parse_support;
use super::*;

fn foreign<'a>(name: &'a str, returns: &str, takes: &[&str]) -> ForeignFunction<'a> {
    ForeignFunction {
        name,
        returns: returns.to_owned(),
        takes: takes.iter().map(|&ty| ty.to_owned()).collect(),
    }
}

/// Parses the bodies of all these functions together.
fn accept(functions: &[(&str, &str, &[&str])], find: fn(&ForeignFunction) -> Option<HostBody>) {
    let bodies = functions.iter().map(|(name, returns, takes)| {
        let foreign = foreign(name, returns, takes);
        let body = find(&foreign).unwrap_or_else(|| panic!("no body for {name}"));
        (foreign, body)
    });
    accept_bodies(bodies.collect());
}

/// Has LLVM read functions with these bodies.
pub fn accept_bodies(bodies: Vec<(ForeignFunction, HostBody)>) {
    let mut text = String::new();
    let mut declarations = BTreeSet::new();
    for (at, (foreign, body)) in bodies.into_iter().enumerate() {
        text += &definition(&format!("f{at}"), &foreign, &body);
        declarations.extend(body.declarations);
    }
    // SAFETY: the context outlives the module, and both are disposed of once.
    unsafe {
        let context = LLVMContextCreate();
        let module =
            parse_support(context, &text, &declarations).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut message = std::ptr::null_mut();
        let action = inkwell::llvm_sys::analysis::LLVMVerifierFailureAction::LLVMReturnStatusAction;
        let broken = inkwell::llvm_sys::analysis::LLVMVerifyModule(module, action, &mut message);
        assert_eq!(broken, 0, "{}", CStr::from_ptr(message).to_string_lossy());
        LLVMDisposeMessage(message);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
}

#[test]
fn registers_and_synchronisation() {
    accept(
        &[
            ("llvm.nvvm.read.ptx.sreg.tid.x", "i32", &[]),
            ("llvm.nvvm.read.ptx.sreg.nctaid.z", "i32", &[]),
            ("llvm.nvvm.read.ptx.sreg.laneid", "i32", &[]),
            ("llvm.nvvm.read.ptx.sreg.lanemask.gt", "i32", &[]),
            ("llvm.nvvm.read.ptx.sreg.warpsize", "i32", &[]),
            ("llvm.nvvm.read.ptx.sreg.clock64", "i64", &[]),
            ("llvm.nvvm.barrier.cta.sync.aligned.all", "void", &["i32"]),
            ("llvm.nvvm.barrier.cta.sync.count", "void", &["i32", "i32"]),
            (
                "llvm.nvvm.barrier.cta.red.popc.aligned.all",
                "i32",
                &["i32", "i1"],
            ),
            ("llvm.nvvm.barrier.cta.red.or.aligned.all", "i1", &["i32", "i1"]),
            ("llvm.nvvm.bar.warp.sync", "void", &["i32"]),
            (
                "llvm.nvvm.shfl.sync.down.f32",
                "float",
                &["i32", "float", "i32", "i32"],
            ),
            (
                "llvm.nvvm.shfl.sync.idx.i32p",
                "{ i32, i1 }",
                &["i32", "i32", "i32", "i32"],
            ),
            ("llvm.nvvm.vote.ballot.sync", "i32", &["i32", "i1"]),
            ("llvm.nvvm.vote.any.sync", "i1", &["i32", "i1"]),
            ("llvm.nvvm.activemask", "i32", &[]),
            ("llvm.nvvm.match.any.sync.i64", "i32", &["i32", "i64"]),
            ("llvm.nvvm.match.all.sync.i32p", "{ i32, i1 }", &["i32", "i32"]),
            ("llvm.nvvm.redux.sync.add", "i32", &["i32", "i32"]),
            ("llvm.nvvm.redux.sync.umin", "i32", &["i32", "i32"]),
            ("llvm.nvvm.atomic.add.gen.i.cta.i32.p0", "i32", &["ptr", "i32"]),
            (
                "llvm.nvvm.atomic.add.gen.f.sys.f64.p0",
                "double",
                &["ptr", "double"],
            ),
            (
                "llvm.nvvm.atomic.cas.gen.i.cta.i64.p0",
                "i64",
                &["ptr", "i64", "i64"],
            ),
            ("llvm.nvvm.membar.gl", "void", &[]),
            ("vprintf", "i32", &["ptr", "ptr"]),
            ("__assertfail", "void", &["ptr", "ptr", "i32", "ptr", "i64"]),
            ("llvm.trap", "void", &[]),
            ("llvm.nvvm.nanosleep", "void", &["i32"]),
        ],
        function,
    );
}

#[test]
fn arithmetic() {
    accept(
        &[
            ("llvm.nvvm.fma.rn.d", "double", &["double", "double", "double"]),
            ("llvm.nvvm.fma.rz.ftz.f", "float", &["float", "float", "float"]),
            ("llvm.nvvm.add.rp.d", "double", &["double", "double"]),
            ("llvm.nvvm.div.rn.f", "float", &["float", "float"]),
            ("llvm.nvvm.sqrt.rm.d", "double", &["double"]),
            ("llvm.nvvm.rcp.rz.f", "float", &["float"]),
            ("llvm.nvvm.rcp.rn.d", "double", &["double"]),
            ("llvm.nvvm.saturate.f", "float", &["float"]),
            ("llvm.nvvm.rsqrt.approx.ftz.f", "float", &["float"]),
            ("llvm.nvvm.ex2.approx.ftz.f32", "float", &["float"]),
            ("llvm.nvvm.round.d", "double", &["double"]),
            ("llvm.nvvm.f2i.rn.ftz", "i32", &["float"]),
            ("llvm.nvvm.d2ull.rp", "i64", &["double"]),
            ("llvm.nvvm.ull2f.rm", "float", &["i64"]),
            ("llvm.nvvm.i2d.rn", "double", &["i32"]),
            ("llvm.nvvm.d2f.rz", "float", &["double"]),
            ("llvm.nvvm.d2i.hi", "i32", &["double"]),
            ("llvm.nvvm.lohi.i2d", "double", &["i32", "i32"]),
            ("llvm.nvvm.f2h.rn", "i16", &["float"]),
            ("llvm.nvvm.mulhi.ull", "i64", &["i64", "i64"]),
            ("llvm.nvvm.sad.i", "i32", &["i32", "i32", "i32"]),
            ("llvm.nvvm.prmt", "i32", &["i32", "i32", "i32"]),
            ("llvm.nvvm.idp4a.s.u", "i32", &["i32", "i32", "i32"]),
            ("llvm.nvvm.fshl.clamp.i32", "i32", &["i32", "i32", "i32"]),
            ("__nv_sin", "double", &["double"]),
            ("__nv_powf", "float", &["float", "float"]),
            ("__nv_erfcf", "float", &["float"]),
            ("__nv_frexp", "double", &["double", "ptr"]),
            ("__nv_ldexpf", "float", &["float", "i32"]),
            ("__nv_erf", "double", &["double"]),
        ],
        function,
    );
    assert!(!replaces_libdevice("__nv_erfcinv") && !replaces_libdevice("__nv_fast_sinf"));
}

#[test]
fn unknown_is_not_guessed() {
    for (name, returns, takes) in [
        ("llvm.nvvm.wmma.m16n16k16.mma", "void", &[][..]),
        ("llvm.nvvm.add.rn.ftz.sat.f", "float", &["float", "float"][..]),
        ("llvm.nvvm.fma.rn.relu.f16", "half", &["half", "half", "half"][..]),
        ("__nv_unheard_of", "float", &["float"][..]),
        ("vprintf", "i32", &["ptr"][..]),
    ] {
        assert!(function(&foreign(name, returns, takes)).is_none(), "{name}");
    }
}

#[test]
fn matrices() {
    let (h8, f8) = (["<2 x half>"; 8], ["float"; 8]);
    let structure = |types: &[&str]| format!("{{ {} }}", types.join(", "));
    let halves: Vec<&str> = [h8, h8, ["float"; 8]].concat();
    let stored: Vec<&str> = [&["ptr"], f8.as_slice(), &["i32"]].concat();
    accept(
        &[
            (
                "llvm.nvvm.wmma.m16n16k16.load.a.row.stride.f16.p0",
                &structure(&h8),
                &["ptr", "i32"],
            ),
            (
                "llvm.nvvm.wmma.m32n8k16.load.b.row.stride.f16.p0",
                &structure(&h8),
                &["ptr", "i32"],
            ),
            (
                "llvm.nvvm.wmma.m16n16k8.load.a.col.tf32.p0",
                &structure(&["i32"; 4]),
                &["ptr"],
            ),
            (
                "llvm.nvvm.wmma.m8n8k32.load.b.col.stride.s4.p0",
                "i32",
                &["ptr", "i32"],
            ),
            (
                "llvm.nvvm.wmma.m8n8k4.load.b.row.stride.f64.p3",
                "double",
                &["ptr addrspace(3)", "i32"],
            ),
            (
                "llvm.nvvm.wmma.m16n16k16.load.c.col.stride.f16.p0",
                &structure(&h8[..4]),
                &["ptr", "i32"],
            ),
            (
                "llvm.nvvm.wmma.m16n16k16.mma.row.col.f32.f32",
                &structure(&f8),
                &halves,
            ),
            (
                "llvm.nvvm.wmma.m16n16k16.store.d.col.stride.f32.p0",
                "void",
                &stored,
            ),
        ],
        function,
    );
    // As many registers as the shape has, no more and no fewer.
    for (name, returns, takes) in [
        (
            "llvm.nvvm.wmma.m8n8k4.mma.row.col.f64",
            "{ double, double }",
            ["double"; 3].as_slice(),
        ),
        (
            "llvm.nvvm.wmma.m8n8k4.load.a.row.stride.f64.p0",
            "{ double, double }",
            &["ptr", "i32"],
        ),
        (
            "llvm.nvvm.wmma.m8n8k4.load.a.row.f64.p0",
            "double",
            &["ptr", "i32"],
        ),
    ] {
        assert!(function(&foreign(name, returns, takes)).is_none(), "{name}");
    }
}
