#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

// The numerical constants of a model's kernels. Generated training programs contain these
// constants. Forecasts do not use them, because they affect neither time nor memory.
namespace stepcast::model {

// How rotary positions are extended beyond the sequence length of pretraining. The rules are the
// same as in Hugging Face transformers (src/transformers/modeling_rope_utils.py). Llama 3.1's rule
// divides frequencies by `factor` if their wavelength is above original_positions /
// low_frequency_factor. The rule does not change frequencies with wavelengths below
// original_positions / high_frequency_factor, and interpolates between the two limits. Only Llama
// 3.1's rule uses the last three members of RotaryScaling.
enum class RotaryRule : std::uint8_t { kLlama3, kLinear, kDynamic, kYarn, kLongRope };
inline constexpr RotaryRule kRotaryRules[] = {RotaryRule::kLlama3, RotaryRule::kLinear,
                                              RotaryRule::kDynamic, RotaryRule::kYarn,
                                              RotaryRule::kLongRope};
constexpr const char* Name(RotaryRule rule) {
  constexpr const char* kNames[] = {"llama3", "linear", "dynamic", "yarn", "longrope"};
  return kNames[static_cast<std::size_t>(rule)];
}

struct RotaryScaling {
  RotaryRule rule = RotaryRule::kLlama3;
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_positions = 8192;
  friend bool operator==(const RotaryScaling&, const RotaryScaling&) = default;
};

struct NumericalConstants {
  double norm_epsilon = 1e-5;                     // added to the variance before the square root
  double rotary_base = 10'000;                    // theta of rotary positions
  std::optional<RotaryScaling> rotary_scaling{};  // not set: positions are not scaled
};

}  // namespace stepcast::model
