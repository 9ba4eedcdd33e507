#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "src/runtime/values/number_types.h"

// The optimizers, element by element, in FP32, as PyTorch's torch.optim.AdamW and SGD (momentum,
// dampening 0) define them. The update of an element is a fixed sequence of rounded operations.
// Results are therefore bitwise equal for every backend and every partition of the elements.
namespace stepcast::runtime::values {

inline constexpr double kLearningRate = 1e-3;
inline constexpr double kBeta1 = 0.9;
inline constexpr double kBeta2 = 0.999;
inline constexpr double kEpsilon = 1e-8;
inline constexpr double kWeightDecay = 0.01;
inline constexpr double kMomentum = 0.9;  // SGD

// The constants of one AdamW update.
struct AdamW {
  static constexpr int kMoments = 2;
  float decay = 0;  // 1 - learning rate x weight decay
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_scale = 0;  // 1 / sqrt(1 - beta2^update)
  float epsilon = 0;
  float step_size = 0;  // learning rate / (1 - beta1^update)
};

struct Sgd {
  static constexpr int kMoments = 1;
  float momentum = 0;
  float learning_rate = 0;
};

// Returns the constants of an update. `update` counts the updates, starting with 1. Only for host
// code: powers are computed in double precision, once for all elements.
inline AdamW AdamWOf(std::int64_t update) {
  const auto count = static_cast<double>(update);
  return {.decay = static_cast<float>(1 - kLearningRate * kWeightDecay),
          .one_minus_beta1 = static_cast<float>(1 - kBeta1),
          .beta2 = static_cast<float>(kBeta2),
          .one_minus_beta2 = static_cast<float>(1 - kBeta2),
          .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, count))),
          .epsilon = static_cast<float>(kEpsilon),
          .step_size = static_cast<float>(kLearningRate / (1 - std::pow(kBeta1, count)))};
}

inline Sgd SgdOf() {
  return {.momentum = static_cast<float>(kMomentum),
          .learning_rate = static_cast<float>(kLearningRate)};
}

// Returns the new value of a parameter, and updates its moments. `moments` points to the
// parameter's first moment; each further moment is `stride` floats after the previous moment.
STEPCAST_HOST_DEVICE inline float Updated(const AdamW& optimizer, float parameter, float gradient,
                                          float* moments, std::int64_t stride) {
  float first = moments[0];
  float second = moments[stride];
  first = Add(first, Multiply(optimizer.one_minus_beta1, Add(gradient, -first)));
  second = Add(Multiply(second, optimizer.beta2),
               Multiply(Multiply(optimizer.one_minus_beta2, gradient), gradient));
  moments[0] = first;
  moments[stride] = second;
  const float root = Add(Multiply(SquareRoot(second), optimizer.root_scale), optimizer.epsilon);
  const float change = Multiply(optimizer.step_size, Divide(first, root));
  return Add(Multiply(parameter, optimizer.decay), -change);
}

STEPCAST_HOST_DEVICE inline float Updated(const Sgd& optimizer, float parameter, float gradient,
                                          float* moments, std::int64_t /*stride*/) {
  moments[0] = Add(Multiply(optimizer.momentum, moments[0]), gradient);
  return Add(parameter, -Multiply(optimizer.learning_rate, moments[0]));
}

// Updates element `i` of an array of parameters. `states` contains arrays of `stride` elements: the
// moments, if their type is the parameters' type. If the types differ, the states are FP32, the
// first array is the master copy, and the parameters are rounded values of the master copy.
template <typename Optimizer, typename Parameter, typename Gradient, typename State>
STEPCAST_HOST_DEVICE inline void UpdateElement(const Optimizer& optimizer, Parameter* parameters,
                                               const Gradient* gradients, State* states,
                                               std::int64_t stride, std::int64_t i) {
  static_assert(std::is_same_v<State, Parameter> || std::is_same_v<State, float>);
  const float gradient = ToFp32(gradients[i]);
  if constexpr (std::is_same_v<State, float> && std::is_same_v<Parameter, float>) {
    parameters[i] = Updated(optimizer, parameters[i], gradient, states + i, stride);
  } else if constexpr (std::is_same_v<State, float>) {
    states[i] = Updated(optimizer, states[i], gradient, states + stride + i, stride);
    parameters[i] = FromFp32<Parameter>(states[i]);
  } else {
    float moments[Optimizer::kMoments];
    for (int m = 0; m < Optimizer::kMoments; ++m) moments[m] = ToFp32(states[m * stride + i]);
    parameters[i] =
        FromFp32<Parameter>(Updated(optimizer, ToFp32(parameters[i]), gradient, moments, 1));
    for (int m = 0; m < Optimizer::kMoments; ++m) {
      states[m * stride + i] = FromFp32<State>(moments[m]);
    }
  }
}

template <typename Optimizer, typename Parameter, typename Gradient, typename State>
void UpdateRange(const Optimizer& optimizer, Parameter* parameters, const Gradient* gradients,
                 State* states, std::int64_t stride, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    UpdateElement(optimizer, parameters, gradients, states, stride, i);
  }
}

}  // namespace stepcast::runtime::values
