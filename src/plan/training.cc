#include "src/plan/training.h"

namespace stepcast::plan {

const char* Name(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdamW:
      return "adamw";
    case Optimizer::kSgd:
      return "sgd";
    case Optimizer::kLamb:
      return "lamb";
    case Optimizer::kAdamW8bit:
      return "adamw_8bit";
    case Optimizer::kLion:
      return "lion";
    case Optimizer::kAdafactor:
      return "adafactor";
    case Optimizer::kMuon:
      return "muon";
  }
  return "";
}

const char* Name(OptimizerImplementation implementation) {
  switch (implementation) {
    case OptimizerImplementation::kFused:
      return "fused";
    case OptimizerImplementation::kForeach:
      return "foreach";
    case OptimizerImplementation::kSingle:
      return "single";
  }
  return "";
}

const char* Name(MasterWeights master_weights) {
  switch (master_weights) {
    case MasterWeights::kNone:
      return "none";
    case MasterWeights::kFp32:
      return "fp32";
    case MasterWeights::kFp16Remainder:
      return "fp16_remainder";
  }
  return "";
}

const char* Name(HostWaits waits) {
  switch (waits) {
    case HostWaits::kNever:
      return "never";
    case HostWaits::kStep:
      return "step";
    case HostWaits::kUpdate:
      return "update";
    case HostWaits::kMicroBatch:
      return "micro_batch";
    case HostWaits::kPhase:
      return "phase";
    case HostWaits::kLaunch:
      return "launch";
  }
  return "";
}

const char* Name(Batching batching) {
  switch (batching) {
    case Batching::kPacked:
      return "packed";
    case Batching::kPadded:
      return "padded";
    case Batching::kByLength:
      return "by_length";
  }
  return "";
}

model::SampleLengths Training::documents() const {
  if (document_length > 0) return {{document_length, 1}};
  return lengths && lengths->batching == Batching::kPacked ? lengths->histogram
                                                           : model::SampleLengths();
}

bool HasTransformerEngine(const Training& training) {
  const bool casts = training.precision == DataType::kMxfp8 ||
                     training.precision == DataType::kNvfp4 ||
                     (training.precision == DataType::kFp8 &&
                      (training.fp8_scaling == model::Fp8Scaling::kDelayed ||
                       training.fp8_scaling == model::Fp8Scaling::kCurrent));
  return casts || training.norm == model::Implementation::kTransformerEngine ||
         training.tensor_overlap == model::TensorOverlap::kUserBuffers;
}

const char* Name(CheckpointMode mode) {
  switch (mode) {
    case CheckpointMode::kSync:
      return "sync";
    case CheckpointMode::kAsync:
      return "async";
  }
  return "";
}

}  // namespace stepcast::plan
