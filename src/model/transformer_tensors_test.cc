#include "src/model/transformer_tensors.h"

#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/lora.h"

namespace stepcast::model {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<Split> AlongTensor(int dimension) {
  return {{.axis = parallel::Axis::kTensor, .dimension = dimension}};
}

std::int64_t Count(const Architecture& architecture) {
  EXPECT_TRUE(Check(architecture).empty());
  std::int64_t count = 0;
  for (const Tensor& tensor : LayOut(architecture).tensors) count += tensor.elements;
  return count;
}

// Sums by hand from the shapes: V h for each embedding, per block q, k, v, o, the MLP's two or
// three matrices and the norms.
TEST(TransformerTensorsTest, PublishedParameterCounts) {
  // 50257 x 768 + 1024 x 768 + 12 (12 x 768^2 + 13 x 768) + 2 x 768.
  EXPECT_EQ(Count(Shipped("gpt2")), 124'439'808);
  EXPECT_EQ(Count(Shipped("llama2-7b")), 6'738'415'616);
  // 2 x 128256 x 4096 + 32 (2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336 + 2 x 4096) + 4096.
  EXPECT_EQ(Count(Shipped("llama3.1-8b")), 8'030'261'248);
  EXPECT_EQ(Count(Shipped("llama3.1-70b")), 70'553'706'496);
  // The released config.json has 8 key-value heads: 2 x 128256 x 16384 + 126 (2 x 16384^2 +
  // 2 x 16384 x 1024 + 3 x 16384 x 53248 + 2 x 16384) + 16384. With 16 heads it would be
  // 4,227,858,432 more.
  EXPECT_EQ(Count(Shipped("llama3.1-405b")), 405'853'388'800);
  EXPECT_EQ(Count(Shipped("mistral-7b")), 7'241'732'096);
  // Hugging Face, Qwen/Qwen2-7B: q, k and v have biases.
  EXPECT_EQ(Count(Shipped("qwen2.5-7b")), 7'615'616'512);
  // 50432 x 4096 + 32 (12 x 4096^2 + 2 x 4096) + 4096; Hugging Face, mosaicml/mpt-7b.
  EXPECT_EQ(Count(Shipped("mpt-7b")), 6'649'286'656);
  // 2 x 256000 x 6144 + 32 (2 x 6144^2 + 2 x 6144 x 1024 + 2 x 6144 x 24576 + 4 x 6144) + 2 x 6144:
  // 3.1B of embeddings and 12.5B besides (Parmar et al. 2024, arXiv 2402.16819).
  EXPECT_EQ(Count(Shipped("nemotron4-15b")), 15'628'775'424);
}

// Embeddings (30522 + 512 + 2 + 2) 1024; per block 4 (1024^2 + 1024) of attention, 2 x 1024 x 4096
// + 4096 + 1024 of the feed-forward, 4 x 1024 of norms; 1024^2 + 1024 of the pooler; 1024^2 + 3 x
// 1024 + 30522 of the head, whose last product is tied; 2 x 1024 + 2. 340M, says the paper.
TEST(TransformerTensorsTest, ParameterCountsOfEncoders) {
  Architecture large = Shipped("bert-large");
  EXPECT_EQ(Count(large), 336'226'108);
  large.next_sentence = false;
  EXPECT_EQ(Count(large), 335'174'458);  // BertForMaskedLM
  // Norms before the layers: two of h less after the embedding, two of h more before the head.
  Architecture megatron = Shipped("bert-large");
  megatron.family = FamilyCalled("megatron-bert");
  EXPECT_EQ(Count(megatron), 336'226'108);
  large.tie_embeddings = false;
  EXPECT_EQ(Count(large), 335'174'458 + 30'522 * 1024);
  megatron.token_types = 0;
  EXPECT_EQ(Count(megatron), 336'226'108 - 2 * 1024);
}

// `named_parameters` of BertForPreTraining; the tied weight is listed with the embedding.
TEST(TransformerTensorsTest, BertInOrder) {
  Architecture a = Shipped("bert-large");
  a.layers = 1;
  const TransformerLayout layout = LayOut(a);
  std::vector<std::string> names;
  for (const Tensor& tensor : layout.tensors) names.push_back(tensor.name);
  const std::string layer = "bert.encoder.layer.0.";
  const std::vector<std::string> expected = {"bert.embeddings.word_embeddings.weight",
                                             "bert.embeddings.position_embeddings.weight",
                                             "bert.embeddings.token_type_embeddings.weight",
                                             "bert.embeddings.LayerNorm.weight",
                                             "bert.embeddings.LayerNorm.bias",
                                             layer + "attention.self.query.weight",
                                             layer + "attention.self.query.bias",
                                             layer + "attention.self.key.weight",
                                             layer + "attention.self.key.bias",
                                             layer + "attention.self.value.weight",
                                             layer + "attention.self.value.bias",
                                             layer + "attention.output.dense.weight",
                                             layer + "attention.output.dense.bias",
                                             layer + "attention.output.LayerNorm.weight",
                                             layer + "attention.output.LayerNorm.bias",
                                             layer + "intermediate.dense.weight",
                                             layer + "intermediate.dense.bias",
                                             layer + "output.dense.weight",
                                             layer + "output.dense.bias",
                                             layer + "output.LayerNorm.weight",
                                             layer + "output.LayerNorm.bias",
                                             "bert.pooler.dense.weight",
                                             "bert.pooler.dense.bias",
                                             "cls.predictions.bias",
                                             "cls.predictions.transform.dense.weight",
                                             "cls.predictions.transform.dense.bias",
                                             "cls.predictions.transform.LayerNorm.weight",
                                             "cls.predictions.transform.LayerNorm.bias",
                                             "cls.seq_relationship.weight",
                                             "cls.seq_relationship.bias"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(layout.layers.back().tensors.back(), 0);
  EXPECT_EQ(layout.tensors[2].shape, (Shape{2, 1024}));
  EXPECT_EQ(layout.tensors[23].splits, AlongTensor(0));

  // MegatronBertLayer: attention.ln, attention.self, attention.output, ln, intermediate, output.
  a.family = FamilyCalled("megatron-bert");
  const TransformerLayout before = LayOut(a);
  EXPECT_EQ(before.tensors[3].name, layer + "attention.ln.weight");
  EXPECT_EQ(before.tensors[13].name, layer + "ln.weight");
  EXPECT_EQ(before.tensors[19].name, "bert.encoder.ln.weight");
}

// GPT-2 124M, `named_parameters` of GPT2LMHeadModel. Conv1D weights are [in, out].
TEST(TransformerTensorsTest, Gpt2Block) {
  const TransformerLayout layout = LayOut(Shipped("gpt2"));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"transformer.wte.weight", {50257, 768}},
      {"transformer.wpe.weight", {1024, 768}},
      {"transformer.h.0.ln_1.weight", {768}},
      {"transformer.h.0.ln_1.bias", {768}},
      {"transformer.h.0.attn.c_attn.weight", {768, 2304}},
      {"transformer.h.0.attn.c_attn.bias", {2304}},
      {"transformer.h.0.attn.c_proj.weight", {768, 768}},
      {"transformer.h.0.attn.c_proj.bias", {768}},
      {"transformer.h.0.ln_2.weight", {768}},
      {"transformer.h.0.ln_2.bias", {768}},
      {"transformer.h.0.mlp.c_fc.weight", {768, 3072}},
      {"transformer.h.0.mlp.c_fc.bias", {3072}},
      {"transformer.h.0.mlp.c_proj.weight", {3072, 768}},
      {"transformer.h.0.mlp.c_proj.bias", {768}},
      {"transformer.h.1.ln_1.weight", {768}},
  };
  ASSERT_EQ(layout.tensors.size(), 2U + 12U * 12U + 2U);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  EXPECT_EQ(layout.tensors[146].name, "transformer.ln_f.weight");
  EXPECT_EQ(layout.tensors[147].name, "transformer.ln_f.bias");
}

TEST(TransformerTensorsTest, LlamaBlock) {
  const TransformerLayout layout = LayOut(Shipped("llama3.1-8b"));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {128256, 4096}},
      {"model.layers.0.self_attn.q_proj.weight", {4096, 4096}},
      {"model.layers.0.self_attn.k_proj.weight", {1024, 4096}},
      {"model.layers.0.self_attn.v_proj.weight", {1024, 4096}},
      {"model.layers.0.self_attn.o_proj.weight", {4096, 4096}},
      {"model.layers.0.mlp.gate_proj.weight", {14336, 4096}},
      {"model.layers.0.mlp.up_proj.weight", {14336, 4096}},
      {"model.layers.0.mlp.down_proj.weight", {4096, 14336}},
      {"model.layers.0.input_layernorm.weight", {4096}},
      {"model.layers.0.post_attention_layernorm.weight", {4096}},
      {"model.layers.1.self_attn.q_proj.weight", {4096, 4096}},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  const std::size_t count = layout.tensors.size();
  EXPECT_EQ(layout.tensors[count - 2].name, "model.norm.weight");
  EXPECT_EQ(layout.tensors[count - 1].name, "lm_head.weight");
}

// 2 x 32000 x 4096 + 32 (2 x 4096^2 + 2 x 4096 x 1024 + 8 x 3 x 4096 x 14336 + 8 x 4096 + 2 x 4096)
// + 4096 (Jiang et al. 2024, arXiv 2401.04088: 47B); likewise the larger one of the two.
TEST(TransformerTensorsTest, ParameterCountsOfMixtures) {
  EXPECT_EQ(Count(Shipped("mixtral-8x7b")), 46'702'792'704);
  EXPECT_EQ(Count(Shipped("mixtral-8x22b")), 140'620'634'112);
  Architecture a = Shipped("mixtral-8x7b");
  // A dense layer of the same width replaces the experts and router in 28 of 32 blocks.
  a.experts.leading_dense = 4;
  a.experts.every = 7;  // 6, 13, 20, 27
  EXPECT_EQ(Count(a), 46'702'792'704 - 28 * (7 * 3 * 4096 * 14336LL + 8 * 4096));
  a = Shipped("mixtral-8x7b");
  a.experts.shared_feed_forward = 1024;
  EXPECT_EQ(Count(a), 46'702'792'704 + 32 * 3 * 4096 * 1024);
  a = Shipped("mixtral-8x7b");
  a.experts.router_bias = a.experts.bias = true;
  EXPECT_EQ(Count(a), 46'702'792'704 + 32 * 8 * (1 + 2 * 14336 + 4096));
}

// `named_parameters` of MixtralForCausalLM in transformers 5.
TEST(TransformerTensorsTest, MixtralBlock) {
  const TransformerLayout layout = LayOut(Shipped("mixtral-8x7b"));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {32000, 4096}},
      {"model.layers.0.self_attn.q_proj.weight", {4096, 4096}},
      {"model.layers.0.self_attn.k_proj.weight", {1024, 4096}},
      {"model.layers.0.self_attn.v_proj.weight", {1024, 4096}},
      {"model.layers.0.self_attn.o_proj.weight", {4096, 4096}},
      {"model.layers.0.mlp.gate.weight", {8, 4096}},
      {"model.layers.0.mlp.experts.gate_up_proj", {8, 28672, 4096}},
      {"model.layers.0.mlp.experts.down_proj", {8, 4096, 14336}},
      {"model.layers.0.input_layernorm.weight", {4096}},
      {"model.layers.0.post_attention_layernorm.weight", {4096}},
      {"model.layers.1.self_attn.q_proj.weight", {4096, 4096}},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
    const bool of_experts = i == 6 || i == 7;
    EXPECT_EQ(layout.tensors[i].group == ParameterGroup::kExperts, of_experts);
    EXPECT_EQ(layout.tensors[i].IsSplitAlong(parallel::kExpertAxes), of_experts);
  }
  // The router is whole on every rank, and each sees its own tokens.
  EXPECT_TRUE(layout.tensors[5].splits.empty());
  EXPECT_TRUE(layout.tensors[5].sequence_parallel);
  const std::vector<Split> columns = {{.axis = parallel::Axis::kExpertOuter, .dimension = 0},
                                      {.axis = parallel::Axis::kExpertInner, .dimension = 0},
                                      {.axis = parallel::Axis::kExpertTensor, .dimension = 1}};
  EXPECT_EQ(layout.tensors[6].splits, columns);
  EXPECT_EQ(layout.tensors[7].splits.back().dimension, 2);
}

// 2 x 151936 h, per block h (a + 2 g + a) 128 of attention, two norms of 128 and two of h.
TEST(TransformerTensorsTest, ParameterCountsOfQwen3) {
  EXPECT_EQ(Count(Shipped("qwen3-8b")), 8'190'735'360);
  EXPECT_EQ(Count(OfFamily("qwen3", 40, 5120, 40, 8, 128, 17408, 151936)), 14'768'307'200);
  EXPECT_EQ(Count(OfFamily("qwen3", 64, 5120, 64, 8, 128, 25600, 151936)), 32'762'123'264);
  EXPECT_EQ(Count(Shipped("qwen3-30b-a3b")), 30'532'122'624);
  EXPECT_EQ(Count(Shipped("qwen3-235b-a22b")), 235'093'634'560);
}

// `named_parameters` of Qwen3MoeForCausalLM in transformers 5, whose experts come before the
// router.
TEST(TransformerTensorsTest, Qwen3Block) {
  const TransformerLayout layout = LayOut(Shipped("qwen3-30b-a3b"));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {151936, 2048}},
      {"model.layers.0.self_attn.q_proj.weight", {4096, 2048}},
      {"model.layers.0.self_attn.k_proj.weight", {512, 2048}},
      {"model.layers.0.self_attn.v_proj.weight", {512, 2048}},
      {"model.layers.0.self_attn.o_proj.weight", {2048, 4096}},
      {"model.layers.0.self_attn.q_norm.weight", {128}},
      {"model.layers.0.self_attn.k_norm.weight", {128}},
      {"model.layers.0.mlp.experts.gate_up_proj", {128, 1536, 2048}},
      {"model.layers.0.mlp.experts.down_proj", {128, 2048, 768}},
      {"model.layers.0.mlp.gate.weight", {128, 2048}},
      {"model.layers.0.input_layernorm.weight", {2048}},
      {"model.layers.0.post_attention_layernorm.weight", {2048}},
      {"model.layers.1.self_attn.q_proj.weight", {4096, 2048}},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  EXPECT_TRUE(layout.tensors[5].splits.empty());
}

// Not counted: the load-balancing corrections, which are not parameters, and the MTP module.
TEST(TransformerTensorsTest, ParameterCountsOfLatentAttention) {
  EXPECT_EQ(Count(Shipped("deepseek-v3")), 671'026'404'352);
  EXPECT_EQ(Count(Shipped("deepseek-v2-lite")), 15'706'484'224);
  EXPECT_EQ(Count(Shipped("moonlight-16b-a3b")), 15'960'108'544);
  EXPECT_EQ(Count(Shipped("kimi-k2")), 1'026'408'209'408);
}

// `named_parameters` of DeepseekV3ForCausalLM in transformers 5: a dense block, and one with
// experts.
TEST(TransformerTensorsTest, DeepseekBlocks) {
  Architecture a = Shipped("deepseek-v3");
  a.layers = 2;
  a.experts.leading_dense = 1;
  const TransformerLayout layout = LayOut(a);
  const std::string dense = "model.layers.0.", experts = "model.layers.1.";
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {129280, 7168}},
      {dense + "self_attn.q_a_proj.weight", {1536, 7168}},
      {dense + "self_attn.q_a_layernorm.weight", {1536}},
      {dense + "self_attn.q_b_proj.weight", {24576, 1536}},
      {dense + "self_attn.kv_a_proj_with_mqa.weight", {576, 7168}},
      {dense + "self_attn.kv_a_layernorm.weight", {512}},
      {dense + "self_attn.kv_b_proj.weight", {32768, 512}},
      {dense + "self_attn.o_proj.weight", {7168, 16384}},
      {dense + "mlp.gate_proj.weight", {18432, 7168}},
      {dense + "mlp.up_proj.weight", {18432, 7168}},
      {dense + "mlp.down_proj.weight", {7168, 18432}},
      {dense + "input_layernorm.weight", {7168}},
      {dense + "post_attention_layernorm.weight", {7168}},
      {experts + "self_attn.q_a_proj.weight", {1536, 7168}},
      {experts + "self_attn.q_a_layernorm.weight", {1536}},
      {experts + "self_attn.q_b_proj.weight", {24576, 1536}},
      {experts + "self_attn.kv_a_proj_with_mqa.weight", {576, 7168}},
      {experts + "self_attn.kv_a_layernorm.weight", {512}},
      {experts + "self_attn.kv_b_proj.weight", {32768, 512}},
      {experts + "self_attn.o_proj.weight", {7168, 16384}},
      {experts + "mlp.experts.gate_up_proj", {256, 4096, 7168}},
      {experts + "mlp.experts.down_proj", {256, 7168, 2048}},
      {experts + "mlp.gate.weight", {256, 7168}},
      {experts + "mlp.shared_experts.gate_proj.weight", {2048, 7168}},
      {experts + "mlp.shared_experts.up_proj.weight", {2048, 7168}},
      {experts + "mlp.shared_experts.down_proj.weight", {7168, 2048}},
      {experts + "input_layernorm.weight", {7168}},
      {experts + "post_attention_layernorm.weight", {7168}},
      {"model.norm.weight", {7168}},
      {"lm_head.weight", {129280, 7168}},
  };
  ASSERT_EQ(layout.tensors.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  // Down to the vectors every rank has the whole, for its part of the tokens; up it has some heads.
  for (const std::size_t whole : {1, 2, 4, 5}) {
    EXPECT_TRUE(layout.tensors[whole].splits.empty());
    EXPECT_TRUE(layout.tensors[whole].sequence_parallel);
  }
  for (const std::size_t divided : {3, 6}) {
    EXPECT_EQ(layout.tensors[divided].splits, AlongTensor(0));
  }
  EXPECT_EQ(layout.tensors[7].splits, AlongTensor(1));

  a = Shipped("deepseek-v2-lite");
  EXPECT_EQ(LayOut(a).tensors[1].name, dense + "self_attn.q_proj.weight");
  EXPECT_EQ(LayOut(a).tensors[1].shape, (Shape{3072, 2048}));
  EXPECT_EQ(LayOut(a).tensors[2].name, dense + "self_attn.kv_a_proj_with_mqa.weight");
}

// 20.9B and 116.8B (OpenAI 2025, gpt-oss model card).
TEST(TransformerTensorsTest, ParameterCountsOfGptOss) {
  EXPECT_EQ(Count(Shipped("gpt-oss-20b")), 20'914'757'184);
  EXPECT_EQ(Count(Shipped("gpt-oss-120b")), 116'829'156'672);
}

// `named_parameters` of GptOssForCausalLM: experts as [in, out], the router before them, and the
// sinks, which belong to no module, first.
TEST(TransformerTensorsTest, GptOssBlock) {
  const TransformerLayout layout = LayOut(Shipped("gpt-oss-20b"));
  const std::string block = "model.layers.0.";
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {201088, 2880}},
      {block + "self_attn.sinks", {64}},
      {block + "self_attn.q_proj.weight", {4096, 2880}},
      {block + "self_attn.q_proj.bias", {4096}},
      {block + "self_attn.k_proj.weight", {512, 2880}},
      {block + "self_attn.k_proj.bias", {512}},
      {block + "self_attn.v_proj.weight", {512, 2880}},
      {block + "self_attn.v_proj.bias", {512}},
      {block + "self_attn.o_proj.weight", {2880, 4096}},
      {block + "self_attn.o_proj.bias", {2880}},
      {block + "mlp.router.weight", {32, 2880}},
      {block + "mlp.router.bias", {32}},
      {block + "mlp.experts.gate_up_proj", {32, 2880, 5760}},
      {block + "mlp.experts.gate_up_proj_bias", {32, 5760}},
      {block + "mlp.experts.down_proj", {32, 2880, 2880}},
      {block + "mlp.experts.down_proj_bias", {32, 2880}},
      {block + "input_layernorm.weight", {2880}},
      {block + "post_attention_layernorm.weight", {2880}},
      {"model.layers.1.self_attn.sinks", {64}},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  EXPECT_EQ(layout.tensors[1].splits, AlongTensor(0));
  EXPECT_EQ(layout.tensors[12].splits.back().dimension, 2);
  EXPECT_EQ(layout.tensors[14].splits.back().dimension, 1);
  EXPECT_FALSE(layout.layers[1].full_attention);
  EXPECT_TRUE(layout.layers[2].full_attention);
}

// Embeddings of Gemma and of the smallest Phi-4 are tied.
TEST(TransformerTensorsTest, ParameterCountsOfDenseFamilies) {
  EXPECT_EQ(Count(OfFamily("gemma2", 26, 2304, 8, 4, 256, 9216, 256000)), 2'614'341'888);
  EXPECT_EQ(Count(Shipped("gemma2-9b")), 9'241'705'984);
  EXPECT_EQ(Count(OfFamily("gemma2", 46, 4608, 32, 16, 128, 36864, 256000)), 27'227'128'320);
  EXPECT_EQ(Count(OfFamily("gemma3", 26, 1152, 4, 1, 256, 6912, 262144)), 999'885'952);
  EXPECT_EQ(Count(OfFamily("gemma3", 34, 2560, 8, 4, 256, 10240, 262208)), 3'880'263'168);
  EXPECT_EQ(Count(OfFamily("gemma3", 48, 3840, 16, 8, 256, 15360, 262208)), 11'766'034'176);
  EXPECT_EQ(Count(Shipped("gemma3-27b")), 27'009'346'304);
  EXPECT_EQ(Count(OfFamily("phi3", 32, 3072, 32, 32, 96, 8192, 32064)), 3'821'079'552);
  EXPECT_EQ(Count(OfFamily("phi3", 40, 5120, 40, 10, 128, 17920, 32064)), 13'960'238'080);
  EXPECT_EQ(Count(Shipped("phi4")), 14'659'507'200);
  Architecture mini = OfFamily("phi3", 32, 3072, 24, 8, 128, 8192, 200064);
  mini.tie_embeddings = true;
  EXPECT_EQ(Count(mini), 3'836'021'760);
  EXPECT_EQ(Count(OfFamily("olmo2", 16, 2048, 16, 16, 128, 8192, 100352)), 1'484'916'736);
  EXPECT_EQ(Count(Shipped("olmo2-7b")), 7'298'617'344);
  EXPECT_EQ(Count(OfFamily("olmo2", 40, 5120, 40, 40, 128, 13824, 100352)), 13'716'198'400);
  EXPECT_EQ(Count(OfFamily("olmo2", 64, 5120, 40, 8, 128, 27648, 100352)), 32'234'279'936);
}

// As stated in the repositories of the released weights.
TEST(TransformerTensorsTest, ParameterCountsOfFurtherDenseFamilies) {
  EXPECT_EQ(Count(Shipped("gemma-7b")), 8'537'680'896);
  EXPECT_EQ(Count(OfFamily("gemma", 18, 2048, 8, 1, 256, 16384, 256000)), 2'506'172'416);
  EXPECT_EQ(Count(Shipped("glm-4-9b")), 9'399'951'360);
  EXPECT_EQ(Count(OfFamily("glm4", 40, 4096, 32, 2, 128, 13696, 151552)), 9'400'279'040);
  EXPECT_EQ(Count(OfFamily("starcoder2", 32, 4608, 36, 4, 128, 18432, 49152)), 7'173'923'840);
  EXPECT_EQ(Count(Shipped("gptj-6b")), 6'050'882'784);
  EXPECT_EQ(Count(Shipped("pythia-6.9b")), 6'857'302'016);
  EXPECT_EQ(Count(OfFamily("gpt_neox", 44, 6144, 64, 64, 96, 24576, 50432)), 20'554'567'680);
  EXPECT_EQ(Count(OfFamily("phi", 32, 2560, 32, 32, 80, 10240, 51200)), 2'779'683'840);
  EXPECT_EQ(Count(Shipped("falcon-7b")), 6'921'720'704);
  Architecture falcon40 = OfFamily("falcon", 60, 8192, 128, 8, 64, 32768, 65024);
  falcon40.parallel_residual_norms = 2;
  EXPECT_EQ(Count(falcon40), 41'303'293'952);
  EXPECT_EQ(Count(OfFamily("cohere", 40, 8192, 64, 64, 128, 22528, 256000)), 34'980'831'232);
}

TEST(TransformerTensorsTest, ParameterCountsOfFurtherMixtures) {
  EXPECT_EQ(Count(Shipped("qwen1.5-moe-a2.7b")), 14'315'784'192);
  EXPECT_EQ(Count(Shipped("olmoe-1b-7b")), 6'919'161'856);
  EXPECT_EQ(Count(Shipped("minimax-m2")), 228'689'748'992);
  EXPECT_EQ(Count(Shipped("glm-4.5")), 352'797'814'784);
  EXPECT_EQ(Count(Shipped("glm-4.5-air")), 106'852'245'504);
  EXPECT_EQ(Count(Shipped("llama4-scout")), 107'769'861'120);
  EXPECT_EQ(Count(Shipped("llama4-maverick")), 400'711'848'960);
  // GLM-4.5's module that predicts a further token has experts, too.
  Architecture further = Shipped("glm-4.5");
  further.further_tokens = 1;
  EXPECT_EQ(Count(further) - Count(Shipped("glm-4.5")), 3'988'069'632);
  further = Shipped("glm-4.5-air");
  further.further_tokens = 1;
  EXPECT_EQ(Count(further) - Count(Shipped("glm-4.5-air")), 2'375'059'456);
}

// Names of the first block's tensors, without the block's.
std::vector<std::string> NamesOfBlock(const Architecture& a) {
  const TransformerLayout layout = LayOut(a);
  std::vector<std::string> names;
  for (const int tensor : layout.layers[1].tensors) {
    names.push_back(layout.tensors[static_cast<std::size_t>(tensor)].name.substr(
        std::string("model.layers.0.").size()));
  }
  return names;
}

// `named_parameters` of the classes in transformers.
TEST(TransformerTensorsTest, BlocksOfDenseFamilies) {
  using Names = std::vector<std::string>;
  const std::string attention = "self_attn.", mlp = "mlp.", weight = ".weight";
  Names common;
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    common.push_back(attention + name + weight);
  }
  const Names norms = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"};
  const Names feed_forward = {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"};
  const auto joined = [](std::initializer_list<Names> parts) {
    Names all;
    for (const Names& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const Names four = {"input_layernorm.weight", "post_attention_layernorm.weight",
                      "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"};
  EXPECT_EQ(NamesOfBlock(Shipped("gemma2-9b")), joined({common, feed_forward, four}));
  EXPECT_EQ(NamesOfBlock(Shipped("gemma3-27b")), joined({common, norms, feed_forward, four}));
  EXPECT_EQ(NamesOfBlock(Shipped("olmo2-7b")),
            joined({common, norms, feed_forward, {four[1], four[3]}}));
  EXPECT_EQ(
      NamesOfBlock(Shipped("phi4")),
      (Names{"self_attn.o_proj.weight", "self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight",
             "mlp.down_proj.weight", "input_layernorm.weight", "post_attention_layernorm.weight"}));
  // The norms of OLMo 2 have a weight for each place of all heads.
  const TransformerLayout olmo = LayOut(Shipped("olmo2-7b"));
  EXPECT_EQ(olmo.tensors[5].shape, Shape{4096});
  EXPECT_EQ(LayOut(Shipped("phi4")).tensors[2].shape, (Shape{7680, 5120}));
  EXPECT_EQ(LayOut(Shipped("phi4")).tensors[3].shape, (Shape{35840, 5120}));
}

TEST(TransformerTensorsTest, Llama4Block) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(NamesOfBlock(Shipped("llama4-scout")),
            (Names{"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                   "self_attn.o_proj.weight", "feed_forward.experts.gate_up_proj",
                   "feed_forward.experts.down_proj", "feed_forward.router.weight",
                   "feed_forward.shared_expert.gate_proj.weight",
                   "feed_forward.shared_expert.up_proj.weight",
                   "feed_forward.shared_expert.down_proj.weight", "input_layernorm.weight",
                   "post_attention_layernorm.weight"}));
  EXPECT_EQ(LayOut(Shipped("llama4-scout")).tensors[5].shape, (Shape{16, 5120, 16384}));
  EXPECT_FALSE(LayOut(Shipped("llama4-maverick")).layers[1].experts);
  EXPECT_TRUE(LayOut(Shipped("llama4-maverick")).layers[2].experts);
}

TEST(TransformerTensorsTest, BlocksDiffer) {
  Architecture a = Shipped("llama3.1-8b");
  a.layers = 3;
  a.experts = {.count = 4, .per_token = 1, .feed_forward = 512, .leading_dense = 1};
  a.experts.router_bias = a.experts.bias = true;
  const TransformerLayout layout = LayOut(a);
  const auto names = [&](std::size_t layer) {
    std::vector<std::string> found;
    for (const int tensor : layout.layers[layer].tensors) {
      const std::string& name = layout.tensors[static_cast<std::size_t>(tensor)].name;
      if (name.find("mlp") != std::string::npos) found.push_back(name);
    }
    return found;
  };
  EXPECT_FALSE(layout.layers[1].experts);
  EXPECT_EQ(names(1), (std::vector<std::string>{"model.layers.0.mlp.gate_proj.weight",
                                                "model.layers.0.mlp.up_proj.weight",
                                                "model.layers.0.mlp.down_proj.weight"}));
  EXPECT_TRUE(layout.layers[2].experts);
  EXPECT_EQ(
      names(2),
      (std::vector<std::string>{
          "model.layers.1.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.gate_up_proj_bias",
          "model.layers.1.mlp.experts.down_proj", "model.layers.1.mlp.experts.down_proj_bias",
          "model.layers.1.mlp.gate.weight", "model.layers.1.mlp.gate.bias"}));
}

TEST(TransformerTensorsTest, Qwen2HasBiasesOnQueriesKeysAndValues) {
  const TransformerLayout layout = LayOut(Shipped("qwen2.5-7b"));
  EXPECT_EQ(layout.tensors[1].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(layout.tensors[2].name, "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(layout.tensors[4].name, "model.layers.0.self_attn.k_proj.bias");
  EXPECT_EQ(layout.tensors[4].shape, Shape{512});
  EXPECT_EQ(layout.tensors[7].name, "model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(layout.tensors[8].name, "model.layers.0.mlp.gate_proj.weight");
}

TEST(TransformerTensorsTest, MptBlock) {
  const TransformerLayout layout = LayOut(Shipped("mpt-7b"));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"transformer.wte.weight", {50432, 4096}},
      {"transformer.blocks.0.norm_1.weight", {4096}},
      {"transformer.blocks.0.attn.Wqkv.weight", {12288, 4096}},
      {"transformer.blocks.0.attn.out_proj.weight", {4096, 4096}},
      {"transformer.blocks.0.norm_2.weight", {4096}},
      {"transformer.blocks.0.ffn.up_proj.weight", {16384, 4096}},
      {"transformer.blocks.0.ffn.down_proj.weight", {4096, 16384}},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layout.tensors[i].name, expected[i].first);
    EXPECT_EQ(layout.tensors[i].shape, expected[i].second);
  }
  EXPECT_EQ(layout.tensors.back().name, "transformer.norm_f.weight");
}

std::int64_t Sum(const std::vector<Tensor>& tensors) {
  std::int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.elements;
  return count;
}

// Llama 2 70B, h = 8192, 1024 for keys and for values. Queries, keys and values as one layer and
// the projection, rank 16: 16 (8192 + 10240) + 16 (8192 + 8192) = 557,056 in each of 80 blocks.
// One by one: 16 (2 x (8192 + 8192) + 2 x (8192 + 1024)) = 819,200.
TEST(TransformerTensorsTest, AdaptersAreAllThatIsTrained) {
  Architecture a = OfFamily("llama", 80, 8192, 64, 8, 128, 28672, 32000);
  const std::int64_t plain = Count(a);
  a.lora = {.rank = 16, .targets = {.linear_qkv = true, .projection = true}};
  EXPECT_TRUE(CheckLora(a).empty());
  TransformerLayout layout = LayOut(a);
  EXPECT_EQ(Sum(layout.tensors), 44'564'480);
  EXPECT_EQ(Sum(layout.frozen), plain);
  ASSERT_EQ(layout.layers[1].tensors.size(), 4U);
  EXPECT_EQ(layout.tensors[0].name, "model.layers.0.self_attn.qkv_proj.lora_A.weight");
  EXPECT_EQ(layout.tensors[1].name, "model.layers.0.self_attn.qkv_proj.lora_B.weight");
  EXPECT_EQ(layout.tensors[2].shape, (Shape{16, 8192}));
  EXPECT_EQ(layout.tensors[2].splits, AlongTensor(1));
  EXPECT_TRUE(layout.layers.front().tensors.empty());
  EXPECT_EQ(layout.layers.front().frozen, (std::vector<int>{0}));

  a.lora.targets = {.query = true, .key = true, .value = true, .projection = true};
  EXPECT_EQ(Sum(LayOut(a).tensors), 80 * 819'200);

  // All linear layers of GPT-2: 4 (768 + 2304 + 768 + 768 + 768 + 3072 + 3072 + 768) a block.
  Architecture gpt2 = Shipped("gpt2");
  gpt2.lora = {
      .rank = 4,
      .targets = {.linear_qkv = true, .projection = true, .linear_fc1 = true, .down = true}};
  EXPECT_TRUE(CheckLora(gpt2).empty());
  EXPECT_EQ(Sum(LayOut(gpt2).tensors), 12 * 4 * 12'288);
  EXPECT_EQ(Sum(LayOut(gpt2).frozen), 124'439'808);
  // The head reads the embedding's tensor, frozen or not.
  EXPECT_EQ(LayOut(gpt2).layers.back().frozen.back(), 0);
}

TEST(TransformerTensorsTest, LayersStandInExecutionOrder) {
  const TransformerLayout layout = LayOut(Shipped("gpt2"));
  ASSERT_EQ(layout.layers.size(), 14U);
  EXPECT_EQ(layout.layers[0].name, "transformer.wte");
  EXPECT_EQ(layout.layers[0].kind, LayerKind::kEmbedding);
  EXPECT_EQ(layout.layers[0].tensors, (std::vector<int>{0, 1}));
  EXPECT_EQ(layout.layers[12].name, "transformer.h.11");
  EXPECT_EQ(layout.layers[12].kind, LayerKind::kBlock);
  EXPECT_TRUE(layout.layers[1].first_block);
  EXPECT_FALSE(layout.layers[12].first_block);
  EXPECT_EQ(layout.layers[13].kind, LayerKind::kHead);
  // Norm weight and bias, and the tied embedding.
  EXPECT_EQ(layout.layers[13].tensors, (std::vector<int>{146, 147, 0}));
}

TEST(TransformerTensorsTest, AnUntiedHeadHasItsOwnTensor) {
  Architecture a = Shipped("gpt2");
  a.tie_embeddings = false;
  const TransformerLayout layout = LayOut(a);
  EXPECT_EQ(layout.tensors.back().name, "lm_head.weight");
  EXPECT_EQ(layout.layers.back().tensors.back(), static_cast<int>(layout.tensors.size()) - 1);
  EXPECT_EQ(Count(a), 124'439'808 + 50257 * 768);
}

}  // namespace
}  // namespace stepcast::model
