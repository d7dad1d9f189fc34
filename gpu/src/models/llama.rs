//! Llama: pre-norm decoder with grouped-query attention, rotary positions and a gated feed-forward layer
//! (Touvron et al. 2023; reference: `transformers`' `modeling_llama`).

use mlx_sys::{Around, Array, Gate};
use troupe_model_files::OutputHead;

use super::{ConfigReader, Family, Model};
use crate::batch::Batch;
use crate::error::Result;
use crate::kv::{CacheKind, KvCache};
use crate::layers::{Angles, Embedding, GatedMlp, Linear, Projections, RmsNorm, Rope, attend};
use crate::load::{Bias, Loader};

pub(super) const FAMILY: Family = Family { model_type: "llama", cache, load };

/// The configuration's numbers.
struct Config {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_layers: usize,
    num_heads: usize,
    num_kv_heads: usize,
    head_dim: usize,
    norm_eps: f32,
    attention_bias: Bias,
    mlp_bias: Bias,
}

impl Config {
    fn read(config: &ConfigReader) -> Result<Self> {
        let (hidden_size, num_heads) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
        let num_kv_heads = config.size_opt("num_key_value_heads")?.unwrap_or(num_heads);
        if !num_heads.is_multiple_of(num_kv_heads) {
            let reason = format!("{num_heads} heads are not a multiple of {num_kv_heads}");
            return Err(config.invalid("num_key_value_heads", reason).into());
        }
        if !hidden_size.is_multiple_of(num_heads) {
            let reason = format!("{hidden_size} is not a multiple of {num_heads} heads");
            return Err(config.invalid("hidden_size", reason).into());
        }
        let head_dim = config.size_opt("head_dim")?.unwrap_or(hidden_size / num_heads);
        if let Some(act) = config.str("hidden_act")?.filter(|act| *act != "silu") {
            return Err(config.invalid("hidden_act", format!("`{act}` is not `silu`")).into());
        }
        let bias =
            |key| Ok::<_, crate::error::ConfigError>(Bias::from_flag(config.bool(key)?.unwrap_or(false)));
        Ok(Self {
            vocab_size: config.size("vocab_size")?,
            hidden_size,
            intermediate_size: config.size("intermediate_size")?,
            num_layers: config.size("num_hidden_layers")?,
            num_heads,
            num_kv_heads,
            head_dim,
            norm_eps: config.f64("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            attention_bias: bias("attention_bias")?,
            mlp_bias: bias("mlp_bias")?,
        })
    }
}

fn cache(config: &ConfigReader) -> Result<Vec<CacheKind>> {
    let config = Config::read(config)?;
    let kind = CacheKind::FullAttention { num_heads: config.num_kv_heads, head_dim: config.head_dim };
    Ok(vec![kind; config.num_layers])
}

fn load(config: &ConfigReader, loader: &mut Loader<'_>) -> Result<Box<dyn Model>> {
    let dims = Config::read(config)?;
    let rope = Rope::from_config(config, dims.head_dim)?;
    let (vocab, hidden) = (dims.vocab_size, dims.hidden_size);
    let embed = loader.embedding("model.embed_tokens", vocab, hidden)?;
    let layers =
        (0..dims.num_layers).map(|index| Layer::load(&dims, loader, index)).collect::<Result<_>>()?;
    let norm = loader.rms_norm("model.norm", hidden, dims.norm_eps)?;
    let head = match loader.output_head()? {
        OutputHead::Tied => None,
        OutputHead::Own => Some(loader.linear("lm_head", vocab, hidden, Bias::Absent)?),
    };
    Ok(Box::new(Llama { embed, layers, norm, head, rope }))
}

struct Llama {
    embed: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Option<Linear>,
    rope: Rope,
}

struct Layer {
    index: usize,
    head_dim: i32,
    attention_norm: RmsNorm,
    qkv: Projections,
    output: Linear,
    mlp_norm: RmsNorm,
    mlp: GatedMlp,
}

impl Layer {
    fn load(dims: &Config, loader: &mut Loader<'_>, index: usize) -> Result<Self> {
        let (hidden, inner) = (dims.hidden_size, dims.intermediate_size);
        let (q, kv) = (dims.num_heads * dims.head_dim, dims.num_kv_heads * dims.head_dim);
        let at = |name: &str| format!("model.layers.{index}.{name}");
        let qkv = loader.projections(
            &[(at("self_attn.q_proj"), q), (at("self_attn.k_proj"), kv), (at("self_attn.v_proj"), kv)],
            hidden,
            dims.attention_bias,
        )?;
        let gate_up = loader.projections(
            &[(at("mlp.gate_proj"), inner), (at("mlp.up_proj"), inner)],
            hidden,
            dims.mlp_bias,
        )?;
        Ok(Self {
            index,
            head_dim: dims.head_dim as i32,
            attention_norm: loader.rms_norm(&at("input_layernorm"), hidden, dims.norm_eps)?,
            qkv,
            output: loader.linear(&at("self_attn.o_proj"), hidden, q, dims.attention_bias)?,
            mlp_norm: loader.rms_norm(&at("post_attention_layernorm"), hidden, dims.norm_eps)?,
            mlp: GatedMlp {
                gate_up,
                down: loader.linear(&at("mlp.down_proj"), hidden, inner, dims.mlp_bias)?,
                gate: Gate::Silu,
            },
        })
    }

    fn forward(&self, x: &Array, angles: &Angles, batch: &Batch, kv: &mut KvCache) -> Result<Array> {
        let heads = self.qkv.forward(x, self.attention_norm.norm())?.split()?;
        let by_head = |x: &Array| x.reshape(&[batch.num_tokens(), -1, self.head_dim]);
        let q = angles.rotate(&by_head(&heads[0])?)?;
        let k = angles.rotate(&by_head(&heads[1])?)?;
        let v = by_head(&heads[2])?;
        let attended = attend(&q, &k, &v, kv.layer(self.index)?, batch)?.flatten(1, 2)?;
        let x = self.output.forward(&attended, Around { residual: Some(x), ..Around::default() })?;
        self.mlp.forward(&x, self.mlp_norm.norm())
    }
}

impl Model for Llama {
    fn forward(&self, batch: &Batch, kv: &mut KvCache) -> Result<Array> {
        let angles = self.rope.angles(batch)?;
        let mut x = self.embed.forward(&batch.tokens)?;
        for layer in &self.layers {
            x = layer.forward(&x, &angles, batch, kv)?;
        }
        Ok(x)
    }

    fn logits(&self, hidden: &Array) -> Result<Array> {
        let norm = self.norm.norm();
        match &self.head {
            Some(head) => head.forward(hidden, Around { norm: Some(norm), ..Around::default() }),
            None => self.embed.logits(hidden, norm),
        }
    }
}
