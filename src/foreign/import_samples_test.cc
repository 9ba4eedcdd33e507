#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/diagnostic.h"
#include "src/foreign/import.h"
#include "src/foreign/import_cases.h"

// Imports of fine-tuning files: how they form batches of samples, and torchtune's files.
namespace stepcast::foreign {
namespace {

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
