//! Contexts, and what is set for the calling thread.

use std::ffi::c_int;

use mgb_abi::error::Code;
use mgb_abi::stream::CAPTURE_MODE_RELAXED;

use super::table::{Context, Driver, call, written};

/// A context that is the thread's until the guard is dropped.
pub struct Entered(&'static Driver, Context);

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = self.0.set_current(self.1);
    }
}

/// While it lives, this thread's calls do not end a capture of another thread.
pub struct Relaxed(&'static Driver, u32);

impl Drop for Relaxed {
    fn drop(&mut self) {
        let _ = self.0.exchange_capture_mode(&mut self.1);
    }
}

impl Driver {
    /// The calling thread's context; 0: none.
    pub fn context(&self) -> Context {
        let mut context = 0;
        let code = call!(self.cuCtxGetCurrent(&mut context));
        if code == Code::SUCCESS { context } else { 0 }
    }

    /// The name of a green context among contexts.
    pub fn context_of_green(&self, green: usize) -> Option<Context> {
        let mut context = 0;
        let code = call!(self.cuCtxFromGreenCtx(&mut context, green));
        written(context, code).ok()
    }

    /// The device of the calling thread's context.
    pub fn device(&self) -> Result<c_int, Code> {
        let mut device = 0;
        let code = call!(self.cuCtxGetDevice(&mut device));
        written(device, code)
    }

    /// Makes a context the thread's own for a while.
    pub fn enter(&'static self, context: Context) -> Result<Entered, Code> {
        let before = self.context();
        let code = call!(self.cuCtxSetCurrent(context));
        written(Entered(self, before), code)
    }

    /// Sets the thread's relaxed capture mode, until the guard is dropped.
    pub fn relax(&'static self) -> Relaxed {
        let mut mode = CAPTURE_MODE_RELAXED;
        match self.exchange_capture_mode(&mut mode) {
            Code::SUCCESS => Relaxed(self, mode),
            _ => Relaxed(self, CAPTURE_MODE_RELAXED),
        }
    }

    /// As [`Driver::relax`], for a thread of MGB's own.
    pub fn relax_for_good(&self) -> Code {
        self.exchange_capture_mode(&mut { CAPTURE_MODE_RELAXED })
    }

    /// Sets the thread's capture mode; `mode` is the one before afterwards.
    fn exchange_capture_mode(&self, mode: &mut u32) -> Code {
        call!(self.cuThreadExchangeStreamCaptureMode(mode))
    }

    /// Makes a context the thread's own.
    pub fn set_current(&self, context: Context) -> Code {
        call!(self.cuCtxSetCurrent(context))
    }

    /// Waits for all work of the thread's context.
    pub fn synchronize(&self) -> Code {
        call!(self.cuCtxSynchronize())
    }
}
