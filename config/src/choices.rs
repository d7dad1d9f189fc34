//! Options that are one of a few words.

use serde::{Deserialize, Serialize};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// As it is written in a configuration.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

choice! {
    /// Where to compute.
    Device {
        /// A GPU if there is one, else the CPU.
        Auto = "auto",
        /// The CPU.
        Cpu = "cpu",
        /// The GPU, or an error.
        Gpu = "gpu",
    }
}

choice! {
    /// In which type weights are kept.
    Weights {
        /// As stored; the CPU computes in f32.
        Auto = "auto",
        /// As stored.
        Stored = "stored",
        /// Dequantised to f32.
        F32 = "f32",
    }
}

choice! {
    /// How threads are bound to cores.
    CpuAffinity {
        /// Each to a core of its own.
        Pinned = "pinned",
        /// To any core but that of the thread that they work for.
        Free = "free",
    }
}

choice! {
    /// What becomes of activations before they meet quantised weights.
    CpuActivations {
        /// As the engine finds best.
        Auto = "auto",
        /// 8 bits.
        Int8 = "int8",
        /// 16 bits.
        Int16 = "int16",
        /// Nothing.
        F32 = "f32",
    }
}

choice! {
    /// In which type keys and values are kept.
    KvCacheDtype {
        /// f16 by the CPU's kernels, else the type that is computed in.
        Auto = "auto",
        /// f32.
        F32 = "f32",
        /// f16.
        F16 = "f16",
        /// bf16.
        Bf16 = "bf16",
        /// Bytes, a head's of one token with a scale.
        Int8 = "int8",
    }
}

choice! {
    /// Who may use the keys and values that were computed for another's prompt.
    CacheShare {
        /// Requests of the same tenant.
        Tenant = "tenant",
        /// Everybody.
        Server = "server",
        /// Nobody.
        Off = "off",
    }
}

choice! {
    /// How urgent a request is among those of its tenant.
    Priority {
        /// Somebody waits for it.
        Interactive = "interactive",
        /// As it comes.
        Normal = "normal",
        /// Whenever there is room.
        Batch = "batch",
    }
}

choice! {
    /// How serious a message is, most serious first.
    LogLevel {
        /// Something failed.
        Error = "error",
        /// Something may be wrong.
        Warn = "warn",
        /// Starts, ends, and what was chosen.
        Info = "info",
        /// One or a few lines a request.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

choice! {
    /// Shape of log lines.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, OptionSpec};

    #[test]
    fn words_of_choices_are_the_words_of_the_enums() {
        fn words<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|&choice| word(choice)).collect()
        }
        let table = [
            ("engine.device", words(&[Device::Auto, Device::Cpu, Device::Gpu], Device::as_str)),
            ("engine.weights", words(&[Weights::Auto, Weights::Stored, Weights::F32], Weights::as_str)),
            ("cpu.affinity", words(&[CpuAffinity::Pinned, CpuAffinity::Free], CpuAffinity::as_str)),
            (
                "cpu.activations",
                words(
                    &[CpuActivations::Auto, CpuActivations::Int8, CpuActivations::Int16, CpuActivations::F32],
                    CpuActivations::as_str,
                ),
            ),
            (
                "cache.share",
                words(&[CacheShare::Tenant, CacheShare::Server, CacheShare::Off], CacheShare::as_str),
            ),
            ("log.format", words(&[LogFormat::Text, LogFormat::Json], LogFormat::as_str)),
            (
                "log.level",
                words(
                    &[LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace],
                    LogLevel::as_str,
                ),
            ),
        ];
        for (key, expected) in table {
            let Kind::Choice(words) = OptionSpec::find(key).unwrap().kind else { panic!("{key}") };
            assert_eq!(words, expected, "{key}");
        }
    }
}
