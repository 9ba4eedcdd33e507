#include "src/plan/setting.h"

namespace stepcast::plan {

SettingUse At(Framework framework, int first, int last, const char* note) {
  return {.framework = framework, .first_stage = first, .last_stage = last, .note = note};
}

SettingUse Of(Framework framework, const char* note) {
  return {.framework = framework, .note = note};
}

SettingUse TakenByReference() {
  return {.framework = Framework::kReference, .first_stage = 4, .last_stage = 3};
}

SettingUses::SettingUses() = default;
SettingUses::SettingUses(std::initializer_list<SettingUse> uses) : uses_(uses) {}

const SettingUse* SettingUses::Find(Framework framework) const {
  for (const SettingUse& use : uses_) {
    if (use.framework == framework) return &use;
  }
  return nullptr;
}

bool SettingUses::Has(Framework framework) const {
  return uses_.empty() || Find(framework) != nullptr;
}

bool SettingUses::HasEffect(Framework framework, int stage) const {
  const SettingUse* use = Find(framework);
  return uses_.empty() || (use != nullptr && use->HasEffect(stage));
}

}  // namespace stepcast::plan
