#include "src/calibrate/device_runner.h"

#include <utility>

#include "src/runtime/executor.h"

namespace stepcast::calibrate {

Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch) {
  return [&backend, &job, &watch, rank = job.place().rank](
             const program::Program& program, int warmup_steps,
             int measured_steps) -> runtime::Attempt<program::Timeline> {
    auto device = backend.MakeDevice(program, job, runtime::DeviceOptions());
    if (!device) return tl::unexpected(device.error());
    runtime::ExecuteOptions options;
    options.warmup_steps = warmup_steps;
    options.measured_steps = measured_steps;
    auto measurement = runtime::Execute(program, **device, job, options, watch.progress(rank));
    // Reports the failure before the device is destroyed, since its destructor waits for running
    // work, which may wait for partners.
    if (!measurement) watch.Fail(rank, measurement.error());
    return std::move(measurement->timeline);
  };
}

}  // namespace stepcast::calibrate
