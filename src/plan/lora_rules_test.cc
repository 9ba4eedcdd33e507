#include "gtest/gtest.h"
#include "src/plan/legality_cases.h"

namespace stepcast::plan {
namespace {

TEST(LoraRules, NameEveryImpossibleCombinationWithBothValues) {
  const Case cases[] = {
      {[](Request& r) { r.frozen_dtype = DataType::kBf16; }, "training.frozen_dtype",
       "plan.frozen-dtype",
       "only lora freezes parameters, but lora is not set: frozen_dtype is bf16"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.frozen_dtype = DataType::kFp8;
       },
       "training.frozen_dtype", "plan.frozen-dtype",
       "8-bit weights need 8-bit matrix multiplications, but precision is bf16: frozen_dtype is "
       "fp8"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.tensor = 8;
       },
       "training.lora.rank", "plan.lora",
       "the rank of adapters must be a multiple of parallelism.tensor: tensor is 8 and rank is 4"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.tensor = 2;
       },
       "parallelism.tensor", "plan.lora",
       "with tensor parallelism, adapters are modelled only as in Megatron-LM: framework is fsdp2 "
       "and tensor is 2"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.zero_stage = 3;
       },
       "data_parallel.zero_stage", "plan.lora",
       "reference with lora is modelled only if each rank has all frozen parameters, but "
       "zero_stage is 3"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.framework = Framework::kFsdp2;
         r.zero_stage = 3;
         r.cpu_offload = true;
       },
       "data_parallel.cpu_offload", "plan.lora",
       "cpu_offload is not modelled with frozen parameters"},
      {[](Request& r) {
         r.lora = kAdapters;
         r.framework = Framework::kNanotron;
       },
       "training.lora", "plan.key-not-of-framework", "the framework nanotron has no setting lora"},
  };
  ExpectEach(cases);
}

}  // namespace
}  // namespace stepcast::plan
