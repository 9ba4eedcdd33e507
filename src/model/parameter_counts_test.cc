#include "gtest/gtest.h"
#include "src/model/example_families.h"
#include "src/model/stage.h"

namespace stepcast::model {
namespace {

ActiveParameters ActiveOf(const Architecture& architecture) {
  return ActiveParametersOf(Build("model", architecture));
}

TEST(ParameterCountsTest, DenseModelsAreActiveAsAWhole) {
  EXPECT_EQ(ActiveOf(Shipped("llama3.1-8b")).all, 8'030'261'248);
  EXPECT_EQ(ActiveOf(Shipped("llama3.1-8b")).without_input_embedding,
            8'030'261'248 - 128256LL * 4096);
  // The head uses the table.
  EXPECT_EQ(ActiveOf(Shipped("gpt2")).without_input_embedding, 124'439'808);
}

// A token takes 2 of 8 experts: 6 x 3 x 4096 x 14336 less in each of 32 blocks. Mistral announced
// 12.9B and 39B.
TEST(ParameterCountsTest, ATokenTakesSomeExperts) {
  EXPECT_EQ(ActiveOf(Shipped("mixtral-8x7b")).all, 12'879'925'248);
  EXPECT_EQ(ActiveOf(Shipped("mixtral-8x7b")).without_input_embedding, 12'748'853'248);
  EXPECT_EQ(ActiveOf(Shipped("mixtral-8x22b")).all, 39'152'031'744);
  EXPECT_EQ(ActiveOf(Shipped("mixtral-8x22b")).without_input_embedding, 38'955'423'744);
}

// 3.3B of 30.5B and 22B of 235B (arXiv 2505.09388).
TEST(ParameterCountsTest, ActiveParametersOfQwen3) {
  EXPECT_EQ(ActiveOf(Shipped("qwen3-30b-a3b")).all, 3'353'032'704);
  EXPECT_EQ(ActiveOf(Shipped("qwen3-30b-a3b")).without_input_embedding, 3'041'867'776);
  EXPECT_EQ(ActiveOf(Shipped("qwen3-235b-a22b")).all, 22'190'763'520);
  EXPECT_EQ(ActiveOf(Shipped("qwen3-235b-a22b")).without_input_embedding, 21'568'433'664);
}

// 37B of 671B (arXiv 2412.19437); 2.4B, 3B and 32B of the others.
TEST(ParameterCountsTest, SharedExpertsAreActive) {
  EXPECT_EQ(ActiveOf(Shipped("deepseek-v3")).all, 37'552'282'624);
  EXPECT_EQ(ActiveOf(Shipped("deepseek-v3")).without_input_embedding, 36'625'603'584);
  EXPECT_EQ(ActiveOf(Shipped("deepseek-v2-lite")).all, 2'661'150'208);
  EXPECT_EQ(ActiveOf(Shipped("deepseek-v2-lite")).without_input_embedding, 2'451'435'008);
  EXPECT_EQ(ActiveOf(Shipped("moonlight-16b-a3b")).all, 2'914'774'528);
  EXPECT_EQ(ActiveOf(Shipped("kimi-k2")).all, 32'861'477'888);
  EXPECT_EQ(ActiveOf(Shipped("kimi-k2")).without_input_embedding, 31'687'072'768);
}

// 3.6B and 5.1B, says the card, which leaves out the input embedding.
TEST(ParameterCountsTest, BiasesOfExpertsAreActiveWithThem) {
  EXPECT_EQ(ActiveOf(Shipped("gpt-oss-20b")).all, 4'187'440'704);
  EXPECT_EQ(ActiveOf(Shipped("gpt-oss-20b")).without_input_embedding, 3'608'307'264);
  EXPECT_EQ(ActiveOf(Shipped("gpt-oss-120b")).all, 5'711'982'912);
  EXPECT_EQ(ActiveOf(Shipped("gpt-oss-120b")).without_input_embedding, 5'132'849'472);
}

// 32B and 12B; 17B and 17B, says their announcements, with vision the latter two.
TEST(ParameterCountsTest, ActiveParametersOfFurtherMixtures) {
  EXPECT_EQ(ActiveOf(Shipped("glm-4.5")).all, 33'632'251'904);
  EXPECT_EQ(ActiveOf(Shipped("glm-4.5")).without_input_embedding, 32'856'305'664);
  EXPECT_EQ(ActiveOf(Shipped("glm-4.5-air")).all, 13'424'123'904);
  EXPECT_EQ(ActiveOf(Shipped("llama4-scout")).all, 17'172'894'720);
  EXPECT_EQ(ActiveOf(Shipped("llama4-maverick")).all, 17'184'691'200);
  EXPECT_EQ(ActiveOf(Shipped("llama4-maverick")).without_input_embedding, 16'150'205'440);
}

TEST(ParameterCountsTest, FrozenParametersAreActive) {
  Model model = Build("model", Shipped("mixtral-8x7b"));
  model = Adapted(model, {.rank = 8, .targets = {.projection = true}});
  EXPECT_EQ(ActiveParametersOf(model).all, 12'879'925'248 + 32 * 8 * (4096 + 4096));
}

TEST(ParameterCountsTest, ListedLayersAreActiveAsAWhole) {
  const Model model = Build("list", LayerList{.layers = {{.name = "block",
                                                          .parameters = {20, 30},
                                                          .forward = Milliseconds(3),
                                                          .backward = Milliseconds(4),
                                                          .activation = Bytes(0)}},
                                              .optimizer_step = Time()});
  EXPECT_EQ(ActiveParametersOf(model).all, 50);
  EXPECT_EQ(ActiveParametersOf(model).without_input_embedding, 50);
}

// ViT-Base: 12 (4 h^2 + 2 h f) and biases, 197 positions, 1000 classes: 86.6M. SigLIP: 27 layers,
// 729 positions. T5 v1.1 XXL: 24 (4 h^2 + 3 h f), 32 x 64 distances, half of 9.5B with the decoder.
TEST(ParameterCountsTest, EncodersAlone) {
  EXPECT_EQ(Build("m", Shipped("vit-base")).parameter_count(), 86'567'656);
  EXPECT_EQ(Build("m", Shipped("siglip-so400m")).parameter_count(), 412'987'248);
  EXPECT_EQ(Build("m", Shipped("t5-v1.1-xxl-encoder")).parameter_count(), 4'762'310'656);
}

// T5-11B; Whisper large-v3 is 1,550M, with the table of positions of its encoder, which is not
// trained.
TEST(ParameterCountsTest, EncodersAndDecoders) {
  EXPECT_EQ(Build("m", Shipped("t5-11b")).parameter_count(), 11'307'321'344);
  const Model whisper = Build("m", Shipped("whisper-large-v3"));
  EXPECT_EQ(whisper.frozen_count(), 1500 * 1280);
  EXPECT_EQ(whisper.all_parameter_count(), 1'543'490'560);
}

// 675M (arXiv 2212.09748), 14B and 12B.
TEST(ParameterCountsTest, DiffusionTransformers) {
  EXPECT_EQ(Build("m", Shipped("dit-xl-2")).parameter_count(), 674'834'720);
  EXPECT_EQ(Build("m", Shipped("wan2.1-t2v-14b")).parameter_count(), 14'288'491'584);
  EXPECT_EQ(Build("m", Shipped("flux.1-dev")).parameter_count(), 11'901'408'320);
}

}  // namespace
}  // namespace stepcast::model
