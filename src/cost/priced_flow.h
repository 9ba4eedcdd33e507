#pragma once

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/link_loads.h"

// A priced collective or message as a flow: latency as priced; work W, the longer of the price's
// and the links'; of link l, with b_l bytes at bandwidth B_l, the share b_l / (B_l W).
namespace stepcast::cost {

// The links' work, if they decide: rounding alone does not make them.
Time LongerWork(Time priced, Time needed);

// The work of a flow of so many bytes.
Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price);

// The part of a link, busy for so many seconds a byte, that the flow uses; at most 1.
double FlowShare(double busy, Bytes bytes, Time work);

}  // namespace stepcast::cost
