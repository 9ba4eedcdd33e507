#include "src/plan/framework_style.h"

#include <cstddef>

#include "src/plan/frameworks/ddp.h"
#include "src/plan/frameworks/deepspeed.h"
#include "src/plan/frameworks/fsdp1.h"
#include "src/plan/frameworks/fsdp2.h"
#include "src/plan/frameworks/megatron.h"
#include "src/plan/frameworks/nanotron.h"
#include "src/plan/frameworks/reference.h"

namespace stepcast::plan {

const FrameworkStyle& StyleOf(Framework framework) {
  // By Framework.
  static constexpr const FrameworkStyle* kStyles[] = {
      &kReferenceStyle, &kDdpStyle,      &kFsdp1Style,   &kFsdp2Style,
      &kDeepSpeedStyle, &kMegatronStyle, &kNanotronStyle};
  return *kStyles[static_cast<std::size_t>(framework)];
}

}  // namespace stepcast::plan
