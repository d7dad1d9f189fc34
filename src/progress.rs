//! Progress of long work, drawn where a person looks on.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for the loading of weights. Draws on standard error if that is a terminal, else nowhere.
pub(crate) struct LoadBar(ProgressBar);

impl LoadBar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("loading {wide_bar} {pos}/{len} tensors");
        Self(style.map_or(bar.clone(), |style| bar.with_style(style)))
    }

    /// Shows `done` of `total`; a total of zero is not known yet.
    pub(crate) fn show(&mut self, done: u32, total: u32) {
        if total > 0 {
            self.0.set_length(u64::from(total));
            self.0.set_position(u64::from(done));
        }
    }
}

impl Drop for LoadBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
