#include "src/foreign/import.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/foreign/recipes.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::foreign {
namespace {

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// Returns the value of a key in the text, without its comment.
std::string ValueOf(const Imported& imported, const std::string& key) {
  const std::string& text = imported.scenario.text;
  const std::size_t at = text.find(" " + key + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 3;
  std::string value = text.substr(begin, text.find("  #", begin) - begin);
  value.erase(value.find_last_not_of(' ') + 1);
  return value;
}

bool Asks(const Diagnostics& mistakes, const std::string& option) {
  return std::any_of(mistakes.begin(), mistakes.end(), [&](const Diagnostic& mistake) {
    return mistake.code == "foreign.missing" && mistake.hint.find(option) != std::string::npos;
  });
}

constexpr const char* kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
    "[training]\nlocal_batch_size = 2\nseq_len = 4096\n"
    "[parallelism]\ntensor_parallel_degree = 2\ndata_parallel_replicate_degree = 4\n";

TEST(Import, TorchtitanFollowsItsOwnDefaults) {
  const auto imported =
      Import({.files = {Write("a.toml", kTitan)}, .cluster = "dgx-h100", .nodes = 2});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "sequence_length"), "4096");
  EXPECT_EQ(ValueOf(*imported, "micro_batch_size"), "2");
  EXPECT_EQ(ValueOf(*imported, "sequence_parallel"), "true");
  // Every second block is checkpointed by default.
  EXPECT_EQ(ValueOf(*imported, "checkpointed_blocks"), "1/2");
  // 16 GPUs: 2 for tensor parallelism, and 4 replicas.
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "2");
}

TEST(Import, AsksForWhatTheFilesDoNotSay) {
  const auto imported = Import({.files = {Write("b.toml", kTitan)}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error()[0].code, "foreign.value");  // shards follow from the GPUs
  const auto other =
      Import({.files = {Write("c.toml", "[model]\nflavor = \"1B\"\n[training]\nseq_len = 8\n")}});
  ASSERT_FALSE(other.has_value());
  EXPECT_TRUE(Asks(other.error(), "--cluster"));
  EXPECT_TRUE(Asks(other.error(), "--model"));
}

// A machine of GPUs replaces the cluster of a file, and excludes another one on the command line.
TEST(Import, GpusReplaceTheClusterOfAFile) {
  const std::string file =
      Write("nodes.sh",
            "torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py --seq-length 2048 "
            "--micro-batch-size 1 --global-batch-size 32 --bf16\n");
  const auto imported = Import({.files = {file}, .model = "llama3.1-8b", .gpus = "8 x h100-sxm"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "gpu"), "h100-sxm");
  EXPECT_EQ(ValueOf(*imported, "nodes"), "");
  const auto twice = Import({.files = {"llama3.1-8b"}, .nodes = 2, .gpus = "8 x h100-sxm"});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error()[0].code, "command.wrong-use");
}

// Hints name --set, so --set replaces what another option says, and a note says so.
TEST(Import, SetReplacesOtherOptions) {
  const auto imported = Import(
      {.files = {"llama3.1-8b"}, .cluster = "dgx-h100", .nodes = 1, .set = {"cluster.nodes=2"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "nodes"), "2");
  EXPECT_THAT(imported->notes, testing::Contains("--set cluster.nodes=2 replaces --nodes 1"));
}

// A sweep's own keys need no value, and no default contradicts them.
TEST(Import, VariedKeysGetNoDefaults) {
  const auto imported = Import({.files = {"llama3.1-8b"},
                                .gpus = "8 x h100-sxm",
                                .varied = {"training.global_batch_size", "parallelism.data"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_THAT(imported->assumed,
              testing::Not(testing::Contains("training.gradient_accumulation=1")));
}

// `init` copies a scenario with the values of the options; other commands load it themselves.
TEST(Import, AScenarioIsCopied) {
  const std::string file =
      Write("own.yaml",
            "stepcast: 1\nmodel: gpt2\ncluster: {topology: dgx-a100, nodes: 1}\n"
            "training: {sequence_length: 1024, precision: bf16}\n"
            "name: mine\n");
  const auto refused = Import({.files = {file}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error()[0].code, "foreign.unknown-file");
  const auto copied = Import({.files = {file}, .nodes = 4, .takes_scenario = true});
  ASSERT_TRUE(copied.has_value()) << Format(copied.error());
  EXPECT_EQ(ValueOf(*copied, "nodes"), "4");
  EXPECT_EQ(ValueOf(*copied, "topology"), "dgx-a100");
  EXPECT_THAT(copied->scenario.text, testing::HasSubstr("\nname: mine"));
  EXPECT_TRUE(copied->assumed.empty());
  const auto other = Import({.files = {file}, .gpus = "4 x rtx-4090", .takes_scenario = true});
  ASSERT_TRUE(other.has_value()) << Format(other.error());
  EXPECT_EQ(ValueOf(*other, "gpu"), "rtx-4090");
}

// A model's name is enough: missing values get defaults, which are listed.
TEST(Import, AModelAloneIsTrainedByDefaults) {
  for (const char* name : {"llama3.1-8b", "meta-llama/Llama-3.1-8B"}) {
    const auto imported = Import({.files = {name}, .gpus = "4 x rtx-4090", .global_batch = 8});
    ASSERT_TRUE(imported.has_value()) << Format(imported.error());
    EXPECT_EQ(ValueOf(*imported, "gpu"), "rtx-4090");
    EXPECT_EQ(ValueOf(*imported, "gpus"), "4");
    EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "8");
    EXPECT_EQ(ValueOf(*imported, "framework"), "fsdp2");
    EXPECT_THAT(imported->assumed, testing::Contains("training.sequence_length=4096"));
    EXPECT_THAT(imported->assumed, testing::Not(testing::Contains("training.global_batch_size=8")));
  }
}

TEST(Import, AModelIsTrainedInAPrecisionOfTheGpu) {
  for (const auto& [gpus, cluster] : {std::pair("8 x v100", ""), std::pair("", "dgx-1-v100")}) {
    const auto imported = Import({.files = {"llama3.1-8b"}, .cluster = cluster, .gpus = gpus});
    ASSERT_TRUE(imported.has_value()) << Format(imported.error());
    EXPECT_THAT(imported->assumed, testing::Contains("training.precision=fp16"));
  }
}

TEST(Import, ASearchAssumesNoPlan) {
  const auto imported =
      Import({.files = {"llama2-13b"}, .cluster = "dgx-a100", .nodes = 2, .for_search = true});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(imported->scenario.text.find("framework"), std::string::npos);
  EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "1024");
}

TEST(Import, RefusesGpusThatAreNone) {
  for (const char* gpus : {"4", "4rtx-4090", "99999999999 x h100-sxm"}) {
    const auto imported = Import({.files = {"llama3.1-8b"}, .gpus = gpus});
    ASSERT_FALSE(imported.has_value()) << gpus;
  }
  const auto many = Import({.files = {"llama3.1-8b"}, .gpus = "99999999 x h100-sxm"});
  EXPECT_THAT(many.error().at(0).message, testing::HasSubstr("must be at most 9999999"));
  const auto nowhere = Import({.files = {"llama3.1-8b"}});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_TRUE(Asks(nowhere.error(), "--gpus"));
}

// A hint shows the number and the type in the form that --gpus takes.
TEST(Import, GpusInOtherFormsAreNamedInTheRightOne) {
  EXPECT_EQ(GpusMeant("h100:8"), "8 x h100");
  EXPECT_EQ(GpusMeant("h100 x 8"), "8 x h100");
  EXPECT_EQ(GpusMeant("2x8xh100"), "16 x h100");
  for (const char* right : {"8 x h100", "4x RTX 4090", "4 rtx-4090", "rtx-4090", "RTX 4090", "8"}) {
    EXPECT_EQ(GpusMeant(right), "") << right;
  }
  EXPECT_EQ(ClusterOfGpus("8 \u00d7 h100").value(), ClusterOfGpus("8 x h100").value());
  EXPECT_EQ(ClusterOfGpus("h100:8").error().at(0).hint.substr(0, 25), "write --gpus '8 x h100' w");
}

// An option may replace the model that was named first.
TEST(Import, TheNameIsThatOfTheModel) {
  const auto imported =
      Import({.files = {"llama3.1-8b"}, .model = "qwen3-8b", .gpus = "8 x h100-sxm"});
  ASSERT_TRUE(imported);
  EXPECT_NE(imported->scenario.text.find("name: qwen3-8b"), std::string::npos);
}

TEST(Import, TheCommandLineComesFirst) {
  const auto imported = Import({.files = {Write("d.toml", kTitan)},
                                .model = "llama3.1-70b",
                                .cluster = "dgx-h100",
                                .nodes = 4,
                                .set = {"training.micro_batch_size=1"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "micro_batch_size"), "1");
  EXPECT_NE(imported->scenario.text.find("model: llama3.1-70b "), std::string::npos);
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "4");
}

constexpr const char* kTrainer =
    "model_name_or_path: meta-llama/Llama-3.1-8B\noutput_dir: out\nbf16: true\n"
    "per_device_train_batch_size: 2\nmax_length: 4096\ngradient_checkpointing: true\n";

TEST(Import, DeepSpeedTakesFromTheTrainerWhatIsAuto) {
  const auto imported = Import(
      {.files = {Write("ds.json",
                       "{\"train_micro_batch_size_per_gpu\": \"auto\", \"bf16\": {\"enabled\": "
                       "\"auto\"}, \"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 1e9, "
                       "\"stage3_param_persistence_threshold\": \"auto\"}}\n"),
                 Write("trainer.yaml", kTrainer)},
       .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "deepspeed");
  EXPECT_EQ(ValueOf(*imported, "micro_batch_size"), "2");
  EXPECT_EQ(ValueOf(*imported, "precision"), "bf16");
  EXPECT_EQ(ValueOf(*imported, "parameter_dtype"), "");
  EXPECT_EQ(ValueOf(*imported, "sub_group_size"), "1000000000");
  // Ten times the hidden size of 4,096.
  EXPECT_EQ(ValueOf(*imported, "stage3_param_persistence_threshold"), "40960");
}

TEST(Import, TheTrainerAloneIsDataParallel) {
  const auto imported = Import({.files = {Write("trainer.yaml", kTrainer)}, .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "ddp");
  EXPECT_EQ(ValueOf(*imported, "zero_stage"), "0");
  EXPECT_EQ(ValueOf(*imported, "parameter_dtype"), "fp32");
  EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "full");
  // SwiGLU has the same kernels in transformers as by default.
  EXPECT_EQ(ValueOf(*imported, "rotary"), "huggingface");
  EXPECT_EQ(ValueOf(*imported, "activation_function"), "");
}

TEST(Import, FactoryRecomputesUnlessItIsToldNotTo) {
  const std::string factory =
      "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 1\nbf16: true\n";
  const auto imported = Import({.files = {Write("factory.yaml", factory)}, .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "full");
  const auto kept =
      Import({.files = {Write("kept.yaml", factory + "disable_gradient_checkpointing: true\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(kept.has_value()) << Format(kept.error());
  EXPECT_EQ(ValueOf(*kept, "activation_checkpointing"), "none");
}

TEST(Import, AccelerateSaysWhatIsSharded) {
  const auto imported = Import(
      {.files = {Write("trainer.yaml", kTrainer),
                 Write("fsdp.yaml",
                       "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\n"
                       "num_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
                       "  fsdp_backward_prefetch: BACKWARD_POST\n")},
       .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "fsdp1");
  EXPECT_EQ(ValueOf(*imported, "zero_stage"), "2");
  EXPECT_EQ(ValueOf(*imported, "backward_prefetch"), "post");
  EXPECT_EQ(ValueOf(*imported, "nodes"), "2");
  EXPECT_EQ(ValueOf(*imported, "devices"), "8");
}

TEST(Import, AccelerateStartsDeepSpeedWithoutItsFile) {
  const auto imported =
      Import({.files = {Write("trainer.yaml", kTrainer),
                        Write("z3.yaml",
                              "distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                              "deepspeed_config:\n  zero_stage: 3\n")},
              .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "deepspeed");
  EXPECT_EQ(ValueOf(*imported, "zero_stage"), "3");
  // DeepSpeed keeps parameters in the type of the computation.
  EXPECT_EQ(ValueOf(*imported, "parameter_dtype"), "");
}

TEST(Import, FsdpConvertsLoadedParametersUnderMixedPrecision) {
  const auto type = [](const std::string& trainer, const std::string& precision) {
    const auto imported = Import(
        {.files = {Write("trainer.yaml", trainer),
                   Write("fsdp.yaml", "distributed_type: FSDP\nmixed_precision: " + precision +
                                          "\nfsdp_config: {fsdp_version: 2}\n")},
         .cluster = "dgx-a100"});
    return imported ? ValueOf(*imported, "parameter_dtype") : Format(imported.error());
  };
  const std::string trainer =
      "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 1\nmax_length: 2048\n"
      "torch_dtype: bfloat16\n";
  EXPECT_EQ(type(trainer + "bf16: true\n", "'no'"), "fp32");
  EXPECT_EQ(type(trainer, "bf16"), "fp32");
  EXPECT_EQ(type(trainer, "'no'"), "bf16");
}

TEST(Import, DeepSpeedsSwitchNamesNoFile) {
  const auto imported = Import(
      {.files = {Write("run.sh",
                       "deepspeed main.py --model_name_or_path Qwen/Qwen3-8B --max_seq_len "
                       "512 --per_device_train_batch_size 4 --deepspeed --output_dir out\n")},
       .cluster = "dgx-a100"});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error().front().message,
            "DeepSpeed is on, but a DeepSpeed configuration is missing on the command line");
}

TEST(Import, AxolotlStatesItsDegrees) {
  const auto imported = Import(
      {.files = {Write("axolotl.yaml",
                       "base_model: NousResearch/Llama-2-7B\nsequence_len: 4096\ndp_shard_size: 4\n"
                       "dp_replicate_size: 2\ntensor_parallel_size: 2\nfsdp_version: 2\n"
                       "optimizer: adamw_bnb_8bit\nplugins:\n  - axolotl.integrations.other\n")},
       .model = "llama2-7b",
       .cluster = "dgx-a100",
       .nodes = 2});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "data"), "8");
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "4");
  EXPECT_EQ(ValueOf(*imported, "tensor"), "2");
  EXPECT_EQ(ValueOf(*imported, "framework"), "fsdp2");
  EXPECT_EQ(ValueOf(*imported, "optimizer"), "adamw_8bit");
  EXPECT_NE(imported->omissions.find("axolotl.integrations.other"), std::string::npos);
}

constexpr const char* kMegatronScript =
    "TP=2\nARGS=(--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --swiglu\n"
    "  --position-embedding-type rope --normalization RMSNorm --disable-bias-linear\n"
    "  --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096\n"
    "  --micro-batch-size 1 --global-batch-size ${GBS:-64} --bf16 --sequence-parallel\n"
    "  --tensor-model-parallel-size $TP --use-distributed-optimizer\n"
    "  --num-distributed-optimizer-instances 2 --recompute-granularity full\n"
    "  --recompute-method block --recompute-num-layers 4)\n"
    "torchrun pretrain_gpt.py ${ARGS[@]} --pipeline-model-parallel-size $PP\n";

TEST(Import, MegatronSaysWhichModelItIs) {
  const auto imported = Import({.files = {Write("run.sh", kMegatronScript)},
                                .cluster = "dgx-h100",
                                .nodes = 2,
                                .variables = {"PP=2"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "family"), "llama");
  // Two thirds of four times 4,096 in steps of 64.
  EXPECT_EQ(ValueOf(*imported, "intermediate_size"), "10880");
  EXPECT_EQ(ValueOf(*imported, "tie_word_embeddings"), "true");
  EXPECT_EQ(ValueOf(*imported, "checkpointed_blocks"), "first 4");
  EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "64");
  EXPECT_EQ(ValueOf(*imported, "zero_stage"), "1");
  EXPECT_EQ(ValueOf(*imported, "overlap"), "false");
  // 16 GPUs: 2 x 2 for tensor and pipeline parallelism, and two replicas.
  EXPECT_EQ(ValueOf(*imported, "shard_group_size"), "2");
}

// GPT-NeoX-20B as trained by Megatron-LM, except for its residuals: rotary positions, layer norms,
// GELU.
TEST(Import, MegatronsGptWithRotaryPositionsIsGpt2) {
  const auto imported = Import(
      {.files = {Write("gpt.sh",
                       "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
                       "--num-attention-heads 8 --position-embedding-type rope "
                       "--group-query-attention --num-query-groups 2 --vocab-size 32000 "
                       "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 "
                       "--global-batch-size 16 --bf16\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "family"), "gpt2");
  EXPECT_EQ(ValueOf(*imported, "position"), "rotary");
  EXPECT_EQ(ValueOf(*imported, "normalization"), "layernorm");
  EXPECT_EQ(ValueOf(*imported, "activation"), "gelu");
  EXPECT_EQ(ValueOf(*imported, "num_key_value_heads"), "2");
}

TEST(Import, MegatronSaysWhichExpertsThereAre) {
  const auto imported = Import(
      {.files = {Write("experts.sh",
                       "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --swiglu "
                       "--num-attention-heads 8 --ffn-hidden-size 4096 --normalization RMSNorm "
                       "--position-embedding-type rope --disable-bias-linear --vocab-size 32000 "
                       "--multi-latent-attention --kv-lora-rank 512 --qk-layernorm "
                       "--num-experts 16 --moe-router-topk 4 --moe-ffn-hidden-size 512 "
                       "--moe-layer-freq '([0]*1+[1]*3)' --moe-router-score-function sigmoid "
                       "--moe-shared-expert-intermediate-size 512 --moe-grouped-gemm "
                       "--moe-token-dispatcher-type flex --moe-router-dtype fp32 "
                       "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 "
                       "--mtp-num-layers 2 --mtp-use-repeated-layer "
                       "--untie-embeddings-and-output-weights --max-position-embeddings 4096 "
                       "--seq-length 4096 --micro-batch-size 1 --global-batch-size 16 --bf16 "
                       "--use-distributed-optimizer\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "family"), "deepseek");
  EXPECT_EQ(ValueOf(*imported, "kv_lora_rank"), "512");
  EXPECT_EQ(ValueOf(*imported, "qk_rope_head_dim"), "64");
  EXPECT_EQ(ValueOf(*imported, "num_experts"), "16");
  EXPECT_EQ(ValueOf(*imported, "num_experts_per_tok"), "4");
  EXPECT_EQ(ValueOf(*imported, "first_k_dense_replace"), "1");
  EXPECT_EQ(ValueOf(*imported, "scoring_func"), "sigmoid");
  EXPECT_EQ(ValueOf(*imported, "num_nextn_predict_layers"), "2");
  EXPECT_EQ(ValueOf(*imported, "mtp_use_repeated_layer"), "true");
  EXPECT_EQ(ValueOf(*imported, "expert"), "8");
  EXPECT_EQ(ValueOf(*imported, "dispatcher"), "deepep");
  EXPECT_EQ(ValueOf(*imported, "products"), "streams");
  EXPECT_EQ(ValueOf(*imported, "router_dtype"), "fp32");
  EXPECT_EQ(imported->omissions, "");
}

// Megatron-Core's combined 1F1B, and shared experts concurrent with exchanges.
TEST(Import, MegatronSaysWhatRunsBesideExchanges) {
  const auto imported_with = [](const std::string& options) {
    return Import({.files = {Write("beside.sh",
                                   "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 "
                                   "--swiglu --num-attention-heads 8 --ffn-hidden-size 4096 "
                                   "--normalization RMSNorm --position-embedding-type rope "
                                   "--disable-bias-linear --vocab-size 32000 "
                                   "--multi-latent-attention --kv-lora-rank 512 --qk-layernorm "
                                   "--num-experts 16 --moe-router-topk 4 --moe-grouped-gemm "
                                   "--moe-ffn-hidden-size 512 "
                                   "--moe-shared-expert-intermediate-size 512 "
                                   "--moe-token-dispatcher-type alltoall "
                                   "--expert-model-parallel-size 8 --max-position-embeddings 4096 "
                                   "--untie-embeddings-and-output-weights --seq-length 4096 "
                                   "--micro-batch-size 1 --global-batch-size 16 --bf16 "
                                   "--use-distributed-optimizer " +
                                       options + "\n")},
                   .cluster = "dgx-h100"});
  };
  const auto turns = imported_with("--overlap-moe-expert-parallel-comm --delay-wgrad-compute");
  ASSERT_TRUE(turns.has_value()) << Format(turns.error());
  EXPECT_EQ(ValueOf(*turns, "overlap_communication"), "true");
  EXPECT_EQ(ValueOf(*turns, "delay_weight_gradients"), "true");
  EXPECT_EQ(ValueOf(*turns, "overlap_shared_experts"), "");
  EXPECT_EQ(turns->omissions, "");
  const auto beside = imported_with("--moe-shared-expert-overlap");
  ASSERT_TRUE(beside.has_value()) << Format(beside.error());
  EXPECT_EQ(ValueOf(*beside, "overlap_shared_experts"), "true");
  EXPECT_EQ(ValueOf(*beside, "overlap_communication"), "");
  EXPECT_EQ(beside->omissions, "");
}

TEST(Import, AsksForTheVariablesOfAScript) {
  const auto imported =
      Import({.files = {Write("run.sh", kMegatronScript)}, .cluster = "dgx-h100", .nodes = 2});
  ASSERT_FALSE(imported.has_value());
  ASSERT_EQ(imported.error().size(), 1u) << Format(imported.error());
  EXPECT_TRUE(Asks(imported.error(), "--variable PP="));
}

TEST(Import, NemoNamesTheSameSettings) {
  const auto imported = Import(
      {.files = {Write("nemo.yaml",
                       "trainer: {num_nodes: 2, devices: 8, precision: bf16-mixed}\n"
                       "model:\n  tensor_model_parallel_size: 4\n  micro_batch_size: 1\n"
                       "  global_batch_size: 8\n  encoder_seq_length: 2048\n"
                       "  activations_checkpoint_granularity: selective\n"
                       "  fp8: true\n  fp8_hybrid: true\n  new_setting: 3\n"
                       "  optim: {name: distributed_fused_adam, overlap_grad_sync: true}\n")},
       .model = "llama2-7b",
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "tensor"), "4");
  EXPECT_EQ(ValueOf(*imported, "precision"), "fp8");
  EXPECT_EQ(ValueOf(*imported, "nodes"), "2");
  EXPECT_EQ(ValueOf(*imported, "zero_stage"), "1");
  EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "selective");
  EXPECT_NE(imported->omissions.find("model.new_setting = 3"), std::string::npos);
}

TEST(Import, BridgeNamesThemInSections) {
  const auto imported =
      Import({.files = {Write("bridge.yaml",
                              "model: {tensor_model_parallel_size: 2, seq_length: 4096}\n"
                              "train: {micro_batch_size: 1, global_batch_size: 16}\n"
                              "ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true}\n"
                              "mixed_precision: bf16_with_fp8_current_scaling_mixed\n")},
              .model = "llama3.1-8b",
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "sequence_length"), "4096");
  EXPECT_EQ(ValueOf(*imported, "fp8_scaling"), "current");
  EXPECT_EQ(ValueOf(*imported, "overlap"), "true");
}

TEST(Import, SettingsOfOtherSenseAreShownAsTheyAreWritten) {
  const auto imported =
      Import({.files = {Write("bridge.yaml",
                              "model: {seq_length: 4096, bias_dropout_fusion: false}\n"
                              "train: {micro_batch_size: 1, global_batch_size: 16}\n"
                              "mixed_precision: bf16_mixed\n")},
              .model = "llama3.1-8b",
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_NE(imported->omissions.find("model.bias_dropout_fusion = false"), std::string::npos)
      << imported->omissions;
}

TEST(Import, MegatronSaysTheBatchOfDeepSpeed) {
  const auto imported =
      Import({.files = {Write("both.sh",
                              "cat <<EOF > ds.json\n{\"train_micro_batch_size_per_gpu\": 1, "
                              "\"gradient_accumulation_steps\": 1, \"train_batch_size\": 64,"
                              " \"zero_optimization\": {\"stage\": 1}}\nEOF\n"
                              "deepspeed pretrain_gpt.py --num-layers 4 --hidden-size 512 "
                              "--num-attention-heads 8 --seq-length 512 --vocab-size 32000 "
                              "--max-position-embeddings 512 --micro-batch-size 1 --fp16 "
                              "--global-batch-size 64 --deepspeed --deepspeed_config ds.json "
                              "--zero-stage 1\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "64");
  EXPECT_EQ(ValueOf(*imported, "gradient_accumulation"), "");
  EXPECT_EQ(ValueOf(*imported, "framework"), "deepspeed");
}

TEST(Import, FilesOfOtherKindsAreNamed) {
  const auto imported = Import({.files = {Write("e.yaml", "pipe-parallel-size: 2\n")}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error()[0].code, "foreign.unknown-file");
  EXPECT_NE(imported.error()[0].message.find("GPT-NeoX"), std::string::npos);
}

TEST(Import, MistakesOfAllFilesComeTogether) {
  const auto imported = Import({.files = {Write("f.toml", "a = \n"), "no-such-file.toml"}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error().size(), 2u);
}

// Names and values that YAML would misread, or that have several lines.
TEST(Import, WritesYamlWhateverTheFilesHold) {
  const std::string hostile = std::string(kTrainer) +
                              "use_peft: true\nlora_r: 8\n"
                              "lora_target_modules: ['a: b', '- c', '#d', \"e\\nf\"]\n"
                              "\"an\\nunknown\\noption\": \"of\\nlines\"\n";
  const auto imported = Import(
      {.files = {Write("hostile.yaml", hostile)},
       .cluster = "dgx-h100",
       .set = {"training.compile=\n  true", "name='a: \"b\"'", "odd key.it: self=[a,\n {b: c}]"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  Diagnostics mistakes;
  const auto document = scenario::ParseYaml(imported->scenario.text, "s", mistakes);
  ASSERT_TRUE(document && mistakes.empty()) << imported->scenario.text << Format(mistakes);
  EXPECT_EQ(ValueOf(*imported, "targets"), "\"a: b - c #d e\\nf\"");
  EXPECT_EQ(ValueOf(*imported, "compile"), "true");
  EXPECT_NE(imported->scenario.text.find("name: \"a: \\\"b\\\"\""), std::string::npos);
  EXPECT_EQ(ValueOf(*imported, "\"it: self\""), "[a, {\"b\": c}]");
  EXPECT_NE(imported->scenario.text.find("an\\nunknown\\noption = of\\nlines"), std::string::npos);
}

TEST(Import, OverridesThatAreNoYamlAreMistakes) {
  const auto imported = Import({.files = {Write("plain.yaml", kTrainer)},
                                .cluster = "dgx-h100",
                                .set = {"training.lora=[1"}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_EQ(imported.error()[0].code, "yaml.syntax");
  EXPECT_EQ(imported.error()[0].location.file, "--set training.lora=[1");
}

// The scenario's model for a name in the Trainer's file; empty: its dimensions are asked for.
std::string ModelOf(const std::string& name) {
  std::string text = kTrainer;
  const std::string written = "meta-llama/Llama-3.1-8B";
  text.replace(text.find(written), written.size(), name);
  const auto imported = Import({.files = {Write("named.yaml", text)}, .cluster = "dgx-a100"});
  if (!imported) return Asks(imported.error(), "--model") ? "" : Format(imported.error());
  const std::string& scenario = imported->scenario.text;
  const std::size_t begin = scenario.find("\nmodel: ") + 8;
  return scenario.substr(begin, scenario.find(' ', begin) - begin);
}

TEST(Import, KnowsModelsOfTheHubByTheirNames) {
  EXPECT_EQ(ModelOf("meta-llama/Meta-Llama-3-8B-Instruct"), "llama3.1-8b");
  EXPECT_EQ(ModelOf("NousResearch/Llama-2-7b-chat-hf"), "llama2-7b");
  EXPECT_EQ(ModelOf("unsloth/Meta-Llama-3.1-8B-bnb-4bit"), "llama3.1-8b");
  EXPECT_EQ(ModelOf("open-r1/Qwen2.5-Math-7B-RoPE-300k"), "qwen2.5-7b");
  EXPECT_EQ(ModelOf("mistralai/Mistral-7B-Instruct-v0.3"), "mistral-7b-v0.3");
  EXPECT_EQ(ModelOf("mistralai/Mistral-7B-v0.1"), "mistral-7b");
  EXPECT_EQ(ModelOf("zai-org/GLM-4.5-Air"), "glm-4.5-air");
  EXPECT_EQ(ModelOf("google/gemma-3-4b-it"), "gemma3-4b");
  EXPECT_EQ(ModelOf("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"), "qwen2.5-7b");
  EXPECT_EQ(ModelOf("deepseek-ai/DeepSeek-R1-0528"), "deepseek-v3");
  EXPECT_EQ(ModelOf("openai-community/gpt2-xl"), "gpt2-xl");
  // Other models with the same prefix.
  EXPECT_EQ(ModelOf("microsoft/Phi-4-mini-instruct"), "");
  EXPECT_EQ(ModelOf("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B"), "");
  EXPECT_EQ(ModelOf("Qwen/Qwen3-VL-8B-Instruct"), "");
  EXPECT_EQ(ModelOf("deepseek-ai/DeepSeek-V3.2-Exp"), "");
}

// An option without a value has no effect: axolotl's examples list `fsdp:` even if nothing is
// sharded.
TEST(Import, AKeyWithoutAValueSaysNothing) {
  const auto imported =
      Import({.files = {Write("empty.yaml",
                              "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 4096\n"
                              "micro_batch_size: 1\nbf16: auto\nfsdp:\nfsdp_config:\ndeepspeed:\n"
                              "sequence_parallel_degree:\ncontext_parallel_size: 2\nadapter:\n")},
              .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "ddp");
  EXPECT_EQ(ValueOf(*imported, "context"), "2");
}

// torchrun starts processes on one node by default.
TEST(Import, ProcessesAloneAreThoseOfANode) {
  const auto imported =
      Import({.files = {Write("four.sh",
                              "torchrun --nproc_per_node=4 train.py --model_name_or_path "
                              "meta-llama/Llama-2-7b-hf --bf16 True --output_dir x "
                              "--per_device_train_batch_size 2 --model_max_length 2048\n")},
              .cluster = "dgx-a100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "devices"), "4");
}

TEST(Import, AScriptThatStartsAnotherNamesIt) {
  const auto imported = Import({.files = {Write("outer.sh", "TP=2 bash ./inner.sh --fast\n")}});
  ASSERT_FALSE(imported.has_value());
  EXPECT_NE(imported.error()[0].hint.find("./inner.sh"), std::string::npos);
}

TEST(Import, APythonFileMayCallARecipe) {
  const auto imported = Import(
      {.files = {Write("recipe.py",
                       "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\n"
                       "def main():\n    cfg = llama3_8b_pretrain_config()\n"
                       "    cfg.train.global_batch_size = 64\n"
                       "    cfg.model.num_layers = 8\n"
                       "    if x:\n        cfg.train.micro_batch_size = 4\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "64");
  EXPECT_EQ(ValueOf(*imported, "context"), "2");
  EXPECT_NE(imported->scenario.text.find("model: llama3.1-8b "), std::string::npos);
  EXPECT_NE(imported->omissions.find("num_layers = 8"), std::string::npos);
  EXPECT_NE(imported->omissions.find("micro_batch_size under a condition"), std::string::npos);
}

TEST(Import, TorchtitanOfEarly2026) {
  const auto imported =
      Import({.files = {Write(
                  "early.py",
                  "def llama3_8b():\n    return Trainer.Config(\n"
                  "        model_spec=model_registry(\"8B\"),\n"
                  "        model_converters=ModelConvertersContainer.Config(converters=[\n"
                  "            Float8LinearConverter.Config(recipe_name=\"rowwise\")]),\n"
                  "        optimizer=OptimizersInBackwardContainer.Config(lr=1e-4),\n"
                  "        training=TrainingConfig(local_batch_size=1, seq_len=8192),\n"
                  "        activation_checkpoint=ActivationCheckpointConfig(mode=\"full\"))\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "full");
  EXPECT_EQ(ValueOf(*imported, "optimizer_in_backward"), "true");
  EXPECT_EQ(ValueOf(*imported, "gradient_clipping"), "none");
  EXPECT_EQ(ValueOf(*imported, "fp8_scaling"), "torchao_rowwise");
  EXPECT_EQ(imported->omissions, "");
}

TEST(Import, Nanotron) {
  const auto imported = Import(
      {.files = {Write("nanotron.yaml",
                       "model:\n  dtype: bfloat16\n  model_config:\n    is_llama_config: true\n"
                       "    hidden_size: 2048\n    intermediate_size: 8192\n"
                       "    num_hidden_layers: 16\n    num_attention_heads: 16\n"
                       "    num_key_value_heads: 16\n    vocab_size: 49152\n"
                       "    max_position_embeddings: 4096\n    tie_word_embeddings: false\n"
                       "optimizer:\n  zero_stage: 0\n  accumulate_grad_in_fp32: true\n"
                       "parallelism:\n  dp: 2\n  tp: 2\n  pp: 2\n  pp_engine: afab\n"
                       "  tp_mode: REDUCE_SCATTER\n  tp_linear_async_communication: true\n"
                       "tokens:\n  micro_batch_size: 4\n  sequence_length: 4096\n"
                       "  batch_accumulation_per_replica: 8\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "framework"), "nanotron");
  EXPECT_EQ(ValueOf(*imported, "schedule"), "gpipe");
  EXPECT_EQ(ValueOf(*imported, "sequence_parallel"), "true");
  EXPECT_EQ(ValueOf(*imported, "gradient_accumulation"), "8");
  EXPECT_EQ(ValueOf(*imported, "bucket_size"), "25 MiB");
  EXPECT_NE(imported->omissions.find("tp_linear_async_communication"), std::string::npos);
}

// Expert layers are transformers' own if every rank has all experts, and those of axolotl's plugin
// if ranks divide them.
TEST(Import, ExpertsUnderFsdp2) {
  const std::string text =
      "base_model: Qwen/Qwen3-30B-A3B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
      "experts_implementation: scattermoe\nfsdp_version: 2\nfsdp_config: {offload_params: false}\n";
  const auto whole = Import({.files = {Write("whole.yaml", text)}, .cluster = "dgx-h100"});
  ASSERT_TRUE(whole.has_value()) << Format(whole.error());
  EXPECT_EQ(ValueOf(*whole, "implementation"), "transformers");
  EXPECT_EQ(ValueOf(*whole, "products"), "grouped");
  const auto shared =
      Import({.files = {Write("shared.yaml", text + "expert_parallel_size: 2\ndp_shard_size: 4\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(shared.has_value()) << Format(shared.error());
  EXPECT_EQ(ValueOf(*shared, "implementation"), "");
}

// DeepSpeed's AutoEP replaces transformers' layers. With ZeRO-3 it is left out, with a note.
TEST(Import, ExpertsOfDeepSpeedsJson) {
  const auto imported_with = [](int stage, const char* more) {
    const std::string text =
        "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2, "
        "\"bf16\": {\"enabled\": true}, \"optimizer\": {\"type\": \"AdamW\"}, "
        "\"zero_optimization\": {\"stage\": " +
        std::to_string(stage) +
        "}, \"expert_parallel\": {\"enabled\": true, \"autoep_size\": 4, \"preset_model\": "
        "\"qwen3_moe\"" +
        more + "}}";
    return Import({.files = {Write("ds.json", text)},
                   .model = "Qwen/Qwen3-30B-A3B",
                   .cluster = "dgx-h100",
                   .set = {"training.sequence_length=4096"}});
  };
  const auto shared = imported_with(2, "");
  ASSERT_TRUE(shared.has_value()) << Format(shared.error());
  EXPECT_EQ(ValueOf(*shared, "implementation"), "autoep");
  EXPECT_EQ(ValueOf(*shared, "expert"), "4");
  EXPECT_EQ(ValueOf(*shared, "products"), "");
  const auto looped = imported_with(1, ", \"use_grouped_mm\": false");
  ASSERT_TRUE(looped.has_value()) << Format(looped.error());
  EXPECT_EQ(ValueOf(*looped, "products"), "looped");
  const auto partitioned = imported_with(3, "");
  ASSERT_TRUE(partitioned.has_value()) << Format(partitioned.error());
  EXPECT_EQ(ValueOf(*partitioned, "implementation"), "");
  EXPECT_NE(partitioned->omissions.find("ZeRO-3 without AutoEP"), std::string::npos);
}

TEST(Import, TheHubsNameIsAModelOfTheCommandLine) {
  const auto imported = Import(
      {.files = {Write("hub.toml", kTitan)}, .model = "Qwen/Qwen3-8B", .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_NE(imported->scenario.text.find("model: qwen3-8b "), std::string::npos);
}

// "qwen3-8b" is a file in models/, and "qwen3_8b" Megatron-Bridge's recipe for it.
TEST(Import, AModelsNameWinsOverARecipes) {
  EXPECT_TRUE(IsModelName("qwen3-8b"));
  EXPECT_FALSE(IsRecipe("qwen3-8b"));
  EXPECT_TRUE(IsRecipe("qwen3_8b"));
  EXPECT_FALSE(IsModelName("qwen3_8b"));
  EXPECT_FALSE(IsModelName("scenarios"));  // a folder without a config.json
}

// axolotl's words for recomputation with inputs offloaded to the host.
TEST(Import, RecomputationOfAxolotlHasNames) {
  const auto with = [](const std::string& word) {
    return Import({.files = {Write("recomputes.yaml",
                                   "base_model: Qwen/Qwen3-8B\nsequence_len: 4096\n"
                                   "micro_batch_size: 1\nbf16: true\n"
                                   "gradient_checkpointing: " +
                                       word + "\n")},
                   .cluster = "dgx-h100"});
  };
  for (const char* word : {"unsloth", "offload"}) {
    EXPECT_EQ(ValueOf(*with(word), "activation_checkpointing"), "full") << word;
    EXPECT_EQ(ValueOf(*with(word), "activation_offload"), "true") << word;
  }
  EXPECT_EQ(ValueOf(*with("true"), "activation_offload"), "");
  EXPECT_EQ(with("false")->omissions, "");
  EXPECT_NE(with("sometimes")->omissions.find("gradient_checkpointing = sometimes"),
            std::string::npos);
}

// Megatron-Bridge lists which blocks have experts.
TEST(Import, BlocksWithExpertsOfMegatronBridge) {
  const auto imported = Import(
      {.files = {Write("bridge.yaml",
                       "model:\n  num_layers: 4\n  hidden_size: 2048\n  ffn_hidden_size: 8192\n"
                       "  num_attention_heads: 16\n  num_query_groups: 4\n  kv_channels: 128\n"
                       "  seq_length: 4096\n  vocab_size: 32000\n  normalization: RMSNorm\n"
                       "  gated_linear_unit: true\n  position_embedding_type: rope\n"
                       "  add_bias_linear: false\n  num_moe_experts: 8\n  moe_router_topk: 2\n"
                       "  moe_ffn_hidden_size: 1024\n  moe_layer_freq: [0, 1, 1, 1]\n"
                       "  fp32_residual_connection: true\n"
                       "  tensor_model_parallel_size: 1\n"
                       "train:\n  micro_batch_size: 1\n  global_batch_size: 64\n"
                       "mixed_precision: bf16_mixed\noptimizer:\n  optimizer: adam\n"
                       "ddp:\n  use_distributed_optimizer: true\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "first_k_dense_replace"), "1");
  EXPECT_NE(imported->omissions.find("fp32_residual_connection"), std::string::npos);
}

// Megatron-LM's YAML uses names of Megatron-Core, some of which negate an argument.
TEST(Import, MegatronsOwnYaml) {
  const auto imported =
      Import({.files = {Write("gpt_config.yaml",
                              "language_model:\n  num_layers: 24\n  hidden_size: 1024\n"
                              "  num_attention_heads: 16\n  num_query_groups: null\n"
                              "  add_bias_linear: False\n  layernorm_epsilon: 1.e-6\n"
                              "  normalization: RMSNorm\n  bias_swiglu_fusion: True\n"
                              "  hidden_dropout: 0.0\n  attention_dropout: 0.0\n"
                              "model_parallel:\n  tensor_model_parallel_size: 2\n"
                              "  sequence_parallel: True\n  bf16: True\n  fp16: False\n"
                              "  gradient_accumulation_fusion: False\n"
                              "micro_batch_size: 2\nglobal_batch_size: 128\nseq_length: 4096\n"
                              "swiglu: True\nposition_embedding_type: rope\n"
                              "use_distributed_optimizer: True\nsgd_momentum: 0.9\n")},
              .cluster = "dgx-h100",
              .set = {"model.vocab_size=32000"}});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(imported->omissions, "");
  EXPECT_EQ(ValueOf(*imported, "precision"), "bf16");
  EXPECT_EQ(ValueOf(*imported, "mlp_bias"), "false");
  EXPECT_EQ(ValueOf(*imported, "dropout"), "false");
  EXPECT_EQ(ValueOf(*imported, "norm_epsilon"), "1e-06");
  EXPECT_EQ(ValueOf(*imported, "num_key_value_heads"), "");
  EXPECT_EQ(ValueOf(*imported, "tensor"), "2");
  EXPECT_EQ(ValueOf(*imported, "gradient_accumulation_fusion"), "false");
}

// NeMo 2's scripts state a recipe's number of GPUs.
TEST(Import, ARecipesArgumentsAreItsNodes) {
  const auto imported =
      Import({.files = {Write("nemo2.py",
                              "from nemo.collections import llm\n"
                              "def configure():\n"
                              "    recipe = llm.llama3_8b.pretrain_recipe(dir=\"x\", num_nodes=2,\n"
                              "                                           num_gpus_per_node=4)\n"
                              "    recipe.trainer.strategy.tensor_model_parallel_size = 2\n"
                              "    recipe.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)\n"
                              "    return recipe\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(imported->omissions, "");
  EXPECT_EQ(ValueOf(*imported, "nodes"), "2");
  EXPECT_EQ(ValueOf(*imported, "devices"), "8");
  EXPECT_EQ(ValueOf(*imported, "tensor"), "2");
}

constexpr const char* kArguments =
    "num-layers: 4\nhidden-size: 256\nnum-attention-heads: 4\nvocab-size: 1024\nseq-length: 512\n"
    "micro-batch-size: 1\nglobal-batch-size: 64\nbf16: true\n";

std::string Indented(const std::string& text) {
  std::string indented = "  ";
  for (const char c : text) indented += c == '\n' ? "\n  " : std::string(1, c);
  return indented + "\n";
}

// argparse's lists in flat YAML.
TEST(Import, WordsOfOneTextAreAList) {
  const std::string selective = std::string(kArguments) + "recompute-granularity: selective\n";
  for (const char* modules : {"mlp layernorm", "[mlp, layernorm]", "mlp,layernorm"}) {
    const auto imported =
        Import({.files = {Write("words.yaml", selective + "recompute-modules: " + modules + "\n")},
                .cluster = "dgx-h100"});
    ASSERT_TRUE(imported.has_value()) << Format(imported.error());
    EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "selective");
    EXPECT_EQ(ValueOf(*imported, "recompute_modules"), "mlp layernorm");
    EXPECT_EQ(imported->omissions, "");
  }
}

TEST(Import, NoBlockOfAStageIsRecomputed) {
  const auto imported =
      Import({.files = {Write("none.yaml", std::string(kArguments) +
                                               "recompute-granularity: full\nrecompute-method: "
                                               "block\nrecompute-num-layers: 0\n")},
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "activation_checkpointing"), "none");
}

// Megatron-LM's own recipes and Primus' files nest the arguments.
TEST(Import, ArgumentsStandBelowOthersKeys) {
  const std::string arguments = std::string(kArguments) + "add_bias_linear: false\n";
  const std::string files[] = {arguments, "ENV_VARS:\n  A: 1\nARGS:\n" + Indented(arguments),
                               "modules:\n  trainer:\n    framework: megatron\n    overrides:\n" +
                                   Indented(Indented(Indented(arguments)))};
  for (const std::string& text : files) {
    const auto imported = Import({.files = {Write("below.yaml", text)}, .cluster = "dgx-h100"});
    ASSERT_TRUE(imported.has_value()) << text << Format(imported.error());
    EXPECT_EQ(imported->omissions, "");
    EXPECT_EQ(ValueOf(*imported, "num_hidden_layers"), "4");
    EXPECT_EQ(ValueOf(*imported, "global_batch_size"), "64");
    EXPECT_EQ(ValueOf(*imported, "mlp_bias"), "false");
  }
}

TEST(Import, ExpertsOfANamedModelRunAsTheArgumentsSay) {
  const auto imported = Import(
      {.files = {Write("named.yaml",
                       "modules:\n  pre_trainer:\n    framework: megatron\n    model: "
                       "qwen3_30B_A3B.yaml\n    overrides:\n      seq_length: ${LENGTH:4096}\n"
                       "      micro_batch_size: 1\n      global_batch_size: 64\n"
                       "      expert_model_parallel_size: 8\n      use_turbo_deepep: true\n")},
       .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_THAT(imported->scenario.text, testing::HasSubstr("\nmodel: qwen3-30b-a3b "));
  EXPECT_EQ(ValueOf(*imported, "sequence_length"), "4096");
  EXPECT_EQ(ValueOf(*imported, "dispatcher"), "deepep");
  EXPECT_EQ(ValueOf(*imported, "products"), "streams");
}

// FSDP2 has no such setting.
TEST(Import, PartsOfExpertsOfTorchtitanAreLeftOut) {
  const auto imported =
      Import({.files = {Write("parts.toml",
                              "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[training]\n"
                              "seq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n"
                              "expert_parallel_degree = 4\nexpert_tensor_parallel_degree = 2\n")},
              .model = "deepseek-v2-lite",
              .cluster = "dgx-h100"});
  ASSERT_TRUE(imported.has_value()) << Format(imported.error());
  EXPECT_EQ(ValueOf(*imported, "expert"), "4");
  EXPECT_EQ(ValueOf(*imported, "expert_tensor"), "");
  EXPECT_THAT(imported->omissions, testing::HasSubstr("expert_tensor_parallel_degree = 2"));
}

TEST(Import, AScenarioThatIsKeptStatesItsSoftware) {
  const ImportRequest request{.files = {Write("kept.yaml", kArguments)}, .cluster = "dgx-h100"};
  const auto run = Import(request);
  ASSERT_TRUE(run.has_value()) << Format(run.error());
  EXPECT_EQ(ValueOf(*run, "torch"), "");
  ImportRequest kept = request;
  kept.states_software = true;
  const auto written = Import(kept);
  ASSERT_TRUE(written.has_value()) << Format(written.error());
  EXPECT_EQ(ValueOf(*written, "torch"), "\"2.14\"");
  EXPECT_EQ(ValueOf(*written, "nccl"), "\"2.30\"");
}

TEST(ReplaceVariables, TakesWhatTheUserSaysAndTheFilesOwnKeys) {
  Document document{"a.yaml",
                    {{"tp", Value::Text("${TP}")},
                     {"data.seq", Value::Text("${model.seq}")},
                     {"model.seq", Value::Text("4096")},
                     {"pp", Value::Text("$PP")},
                     {"model.ffn", Value::Text("${multiply:4, ${.seq}}")},
                     {"path", Value::Text("costs $")}}};
  ReplaceVariables(document, {{"TP", "4"}});
  EXPECT_EQ(document.Find("tp")->value.Integer(), 4);
  EXPECT_EQ(document.Find("data.seq")->value.Integer(), 4096);
  EXPECT_EQ(document.Find("model.ffn")->value.Integer(), 16384);
  EXPECT_EQ(document.Find("pp")->value.unknown, (std::vector<std::string>{"PP"}));
  EXPECT_TRUE(document.Find("path")->value.unknown.empty());
}

TEST(ReplaceVariables, TakesWhatStandsBehindTheColonOtherwise) {
  Document document{"a.yaml", {{"tp", Value::Text("${TP:4}")}, {"pp", Value::Text("${PP:2}x")}}};
  ReplaceVariables(document, {{"TP", "8"}});
  EXPECT_EQ(document.Find("tp")->value.text, "8");
  EXPECT_EQ(document.Find("pp")->value.text, "2x");
}

// Each value is twice as long as the one before.
TEST(ReplaceVariables, ValuesOfValuesEnd) {
  Document document{"a.yaml", {{"a0", Value::Text(std::string(1000, 'x'))}}};
  for (int i = 1; i < 60; ++i) {
    const std::string before = "${a" + std::to_string(i - 1) + "}";
    document.settings.push_back({"a" + std::to_string(i), Value::Text(before + before)});
  }
  ReplaceVariables(document, {});
  std::size_t characters = 0;
  for (const Setting& setting : document.settings) characters += setting.value.text.size();
  EXPECT_LT(characters, 3'000'000U);
  EXPECT_FALSE(document.settings.back().value.unknown.empty());
}

// Imports of fine-tuning files: how they form batches of samples, and torchtune's files.

// Attention is limited to each packed document; the file does not contain their lengths.
TEST(Import, PackingIsNamedWhereDocumentsAreNotSaid) {
  const std::string text =
      "base_model: Qwen/Qwen3-8B\nsequence_len: 4096\nmicro_batch_size: 1\nbf16: true\n"
      "sample_packing: true\n";
  const auto open = Import({.files = {Write("packed.yaml", text)}, .cluster = "dgx-h100"});
  ASSERT_TRUE(open.has_value()) << Format(open.error());
  EXPECT_NE(open->omissions.find("training.document_length"), std::string::npos);
  const auto lengths = Import({.files = {Write("packed.yaml", text)},
                               .cluster = "dgx-h100",
                               .set = {"training.lengths.histogram=[[512, 3], [2048, 1]]"}});
  ASSERT_TRUE(lengths.has_value()) << Format(lengths.error());
  EXPECT_EQ(lengths->omissions, "");
  EXPECT_EQ(ValueOf(*lengths, "batching"), "packed");
  const auto said = Import({.files = {Write("packed.yaml", text)},
                            .cluster = "dgx-h100",
                            .set = {"training.document_length=512"}});
  ASSERT_TRUE(said.has_value()) << Format(said.error());
  EXPECT_EQ(said->omissions, "");
  EXPECT_EQ(ValueOf(*said, "document_length"), "512");
}

// transformers pads by default; configurations contain no lengths.
TEST(Import, BatchesOfSamplesAreMadeAsTheFileSays) {
  const auto with = [](const std::string& line, std::vector<std::string> set) {
    return Import({.files = {Write("padded.yaml",
                                   "model_name_or_path: Qwen/Qwen3-8B\noutput_dir: out\n"
                                   "max_length: 2048\nper_device_train_batch_size: 4\n"
                                   "learning_rate: 1e-5\nbf16: true\n" +
                                       line)},
                   .cluster = "dgx-h100",
                   .set = std::move(set)});
  };
  const std::string histogram = "training.lengths.histogram=[[512, 3], [2048, 1]]";
  EXPECT_EQ(with("", {})->omissions, "");  // the file does not mention lengths
  EXPECT_EQ(ValueOf(*with("", {histogram}), "batching"), "padded");
  EXPECT_NE(with("group_by_length: true\n", {})->omissions.find("training.lengths.histogram"),
            std::string::npos);
  EXPECT_EQ(ValueOf(*with("group_by_length: true\n", {histogram}), "batching"), "by_length");
  EXPECT_EQ(ValueOf(*with("packing: true\n", {histogram}), "batching"), "packed");
}

// torchtune names models by functions, and uses one data type throughout.
TEST(Import, RecipesOfTorchtuneNameTheirModels) {
  const auto with = [](const std::string& model, const std::string& more) {
    return Import({.files = {Write("tune.yaml", "model:\n  _component_: torchtune.models." + model +
                                                    "\ntokenizer:\n  _component_: a.tokenizer\n"
                                                    "  max_seq_len: 2048\nbatch_size: 2\n"
                                                    "optimizer:\n  _component_: torch.optim.AdamW\n"
                                                    "  fused: true\n" +
                                                    more)},
                   .cluster = "dgx-h100"});
  };
  for (const auto& [builder, model] : {std::pair("llama3_1.lora_llama3_1_8b", "llama3.1-8b"),
                                       {"llama2.llama2_7b", "llama2-7b"},
                                       {"qwen2_5.qwen2_5_7b_instruct", "qwen2.5-7b"},
                                       {"gemma2.gemma2_9b", "gemma2-9b"}}) {
    const auto imported = with(builder, "");
    ASSERT_TRUE(imported.has_value()) << Format(imported.error());
    EXPECT_NE(imported->scenario.text.find(std::string("\nmodel: ") + model + " "),
              std::string::npos);
    EXPECT_EQ(ValueOf(*imported, "framework"), "fsdp2");
  }
  EXPECT_FALSE(with("qwen2.qwen2_0_5b", "").has_value());  // the model is unknown
  const auto eight = with("llama2.llama2_7b", "fsdp_cpu_offload: true\ncompile: {model: true}\n");
  ASSERT_TRUE(eight.has_value()) << Format(eight.error());
  EXPECT_EQ(ValueOf(*eight, "cpu_offload"), "true");
  EXPECT_EQ(ValueOf(*eight, "compile"), "true");
}

}  // namespace

}  // namespace stepcast::foreign
