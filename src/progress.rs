//! Progress bars. They are drawn on stderr, and only if it is a terminal (indicatif sees to that).

use indicatif::{ProgressBar, ProgressStyle};

/// A bar with a title, empty so far.
pub(crate) fn bar(title: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    // A malformed template falls back to the default look.
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(title);
    bar
}

/// Follows the loading of a model, and leaves nothing on the screen when it is done.
pub(crate) fn loading() -> impl FnMut(u32, u32) {
    let bar = bar("loading the model");
    move |done, total| {
        bar.set_length(u64::from(total));
        bar.set_position(u64::from(done));
        if done >= total {
            bar.finish_and_clear();
        }
    }
}
