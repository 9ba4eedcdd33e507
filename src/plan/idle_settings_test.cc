#include "src/plan/idle_settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/model/example_families.h"

namespace stepcast::plan {
namespace {

using Sentences = std::vector<std::string>;

Request RequestOf(Framework framework, int stage) {
  Request request;
  request.sequence_length = 8;
  request.micro_batch_size = 1;
  request.gradient_accumulation = 1;
  request.precision = DataType::kBf16;
  request.optimizer = Optimizer::kAdamW;
  request.framework = framework;
  request.zero_stage = stage;
  return request;
}

// For Llama 3.1 8B, whose norms are RMSNorms, on 8 devices.
Sentences IdleOf(const Request& request) {
  const model::Model model = model::Build("llama", model::Shipped("llama3.1-8b"));
  return IdleSettings(request, Complete(request, 8), model, 8, ModelBlocks());
}

TEST(IdleSettings, SaysWhyARowIsIdle) {
  Request request = RequestOf(Framework::kReference, 0);
  request.host_waits = HostWaits::kStep;
  EXPECT_EQ(IdleOf(request), Sentences{"training.host_waits has no effect with framework "
                                       "reference, which does not model the host"});
  request.host_waits = HostWaits::kLaunch;  // nothing overlaps
  EXPECT_EQ(IdleOf(request), Sentences());
  request.host_waits = HostWaits::kNever;  // the default
  EXPECT_EQ(IdleOf(request), Sentences());
}

TEST(IdleSettings, NothingIsSentOrBesideOnOneGpu) {
  const auto idle = [](const Request& request) {
    const model::Model model = model::Build("llama", model::Shipped("llama3.1-8b"));
    return IdleSettings(request, Complete(request, 1), model, 1, ModelBlocks());
  };
  Request request = RequestOf(Framework::kDdp, 0);
  request.comm_hook = CommHook::kPowerSgd;
  EXPECT_EQ(idle(request), Sentences{"data_parallel.comm_hook has no effect with one "
                                     "data-parallel rank, because this rank has no gradients to "
                                     "send"});
  EXPECT_EQ(IdleOf(request), Sentences());
  request = RequestOf(Framework::kReference, 0);
  request.host_waits = HostWaits::kLaunch;
  EXPECT_EQ(idle(request), Sentences{"training.host_waits has no effect with framework reference "
                                     "on one GPU, because no operations run concurrently"});
}

TEST(IdleSettings, ComparesTheKernelsOfLayers) {
  Request request = RequestOf(Framework::kDdp, 0);
  request.norm = model::Implementation::kApex;  // differs from `fused` in layer norms alone
  EXPECT_EQ(IdleOf(request), Sentences{"training.norm has no effect, because this model's layers "
                                       "run the same kernels with the default value"});
  request.norm = model::Implementation::kEager;
  EXPECT_EQ(IdleOf(request), Sentences());
  request.norm = model::Implementation::kTransformerEngine;  // brings a workspace
  EXPECT_EQ(IdleOf(request), Sentences());
}

TEST(IdleSettings, KnowsWhereFp16IsAsBf16) {
  Request request = RequestOf(Framework::kReference, 0);
  request.gradient_dtype = DataType::kFp16;
  EXPECT_EQ(IdleOf(request),
            Sentences{"training.gradient_dtype has no effect with framework reference, because "
                      "FP16 is forecast with the time and memory of BF16"});
  request.gradient_dtype = DataType::kFp32;
  EXPECT_EQ(IdleOf(request), Sentences());
  request.gradient_dtype.reset();
  request.precision = DataType::kFp16;
  EXPECT_EQ(IdleOf(request), Sentences{"training.precision fp16 is forecast as bf16 with framework "
                                       "reference, because the framework's loss scaling is not "
                                       "modelled"});
  request.framework = Framework::kDdp;  // torch.amp.GradScaler takes no FP16 gradients
  EXPECT_EQ(IdleOf(request),
            Sentences{"training.precision fp16 is forecast as bf16 with framework "
                      "ddp, because the framework's loss scaling is not modelled"});
  request.parameter_dtype = DataType::kFp32;
  EXPECT_EQ(IdleOf(request), Sentences());
}

}  // namespace
}  // namespace stepcast::plan
