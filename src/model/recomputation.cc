#include "src/model/recomputation.h"

namespace stepcast::model {

const char* Name(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::kNone:
      return "none";
    case Checkpointing::kSelective:
      return "selective";
    case Checkpointing::kFull:
      return "full";
    case Checkpointing::kSelectiveOp:
      return "selective_op";
  }
  return "";
}

const char* Name(Attention attention) {
  switch (attention) {
    case Attention::kFlash:
      return "flash";
    case Attention::kMath:
      return "math";
    case Attention::kFlash1:
      return "flash1";
    case Attention::kFlash3:
      return "flash3";
    case Attention::kCudnn:
      return "cudnn";
    case Attention::kFlex:
      return "flex";
    case Attention::kFusedSoftmax:
      return "fused_softmax";
    case Attention::kMathFp32:
      return "math_fp32";
  }
  return "";
}

const char* Name(Implementation implementation) {
  switch (implementation) {
    case Implementation::kFused:
      return "fused";
    case Implementation::kEager:
      return "eager";
    case Implementation::kCompiled:
      return "compiled";
    case Implementation::kApex:
      return "apex";
    case Implementation::kTransformerEngine:
      return "transformer_engine";
    case Implementation::kHuggingFace:
      return "huggingface";
  }
  return "";
}

const char* Name(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kDelayed:
      return "delayed";
    case Fp8Scaling::kCurrent:
      return "current";
    case Fp8Scaling::kTorchao:
      return "torchao";
    case Fp8Scaling::kTorchaoRowwise:
      return "torchao_rowwise";
  }
  return "";
}

const char* Name(TensorOverlap overlap) {
  switch (overlap) {
    case TensorOverlap::kNone:
      return "none";
    case TensorOverlap::kUserBuffers:
      return "user_buffers";
    case TensorOverlap::kAsync:
      return "async";
  }
  return "";
}

const char* Name(Loss loss) {
  switch (loss) {
    case Loss::kEager:
      return "eager";
    case Loss::kInPlace:
      return "in_place";
    case Loss::kFused:
      return "fused";
    case Loss::kHuggingFace:
      return "huggingface";
    case Loss::kChunked:
      return "chunked";
    case Loss::kCut:
      return "cut";
  }
  return "";
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
