#include "src/model/recomputation.h"

#include <cstddef>

namespace stepcast::model {

const char* Name(Checkpointing checkpointing) {
  constexpr const char* kNames[] = {"none", "selective", "full", "selective_op"};
  return kNames[static_cast<std::size_t>(checkpointing)];
}

const char* Name(Attention attention) {
  constexpr const char* kNames[] = {"flash",         "math",      "flash1", "flash3",
                                    "fused_softmax", "math_fp32", "cudnn",  "flex"};
  return kNames[static_cast<std::size_t>(attention)];
}

const char* Name(Implementation implementation) {
  constexpr const char* kNames[] = {"fused",      "eager", "compiled", "apex", "transformer_engine",
                                    "huggingface"};
  return kNames[static_cast<std::size_t>(implementation)];
}

const char* Name(Fp8Scaling scaling) {
  constexpr const char* kNames[] = {"delayed", "current", "torchao", "torchao_rowwise"};
  return kNames[static_cast<std::size_t>(scaling)];
}

const char* Name(TensorOverlap overlap) {
  constexpr const char* kNames[] = {"none", "user_buffers", "async"};
  return kNames[static_cast<std::size_t>(overlap)];
}

const char* Name(Loss loss) {
  constexpr const char* kNames[] = {"eager", "in_place", "fused", "huggingface", "chunked", "cut"};
  return kNames[static_cast<std::size_t>(loss)];
}

std::string Text(const RecomputedModules& modules) {
  std::string text;
  for (const auto& [name, member] : kRecomputedModuleNames) {
    if (modules.*member) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

std::string Text(const Share& share) {
  if (share.first > 0) return "first " + std::to_string(share.first);
  if (share.all()) return "all";
  return std::to_string(share.part) + "/" + std::to_string(share.of);
}

int FlashGeneration(Attention attention) {
  switch (attention) {
    case Attention::kFlash:
      return 2;
    case Attention::kFlash1:
      return 1;
    case Attention::kFlash3:
      return 3;
    case Attention::kCudnn:
      return 4;
    case Attention::kFlex:
      return 5;
    case Attention::kMath:
    case Attention::kMathFp32:
    case Attention::kFusedSoftmax:
      return 0;
  }
  return 0;
}

}  // namespace stepcast::model
