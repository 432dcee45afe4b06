// SPDX-License-Identifier: Apache-2.0
#ifndef KERF_OPS_TD
#define KERF_OPS_TD
include "kerf/Dialect/Kerf/KerfBase.td"
include "kerf/Dialect/Kerf/ElementwiseOps.td"
include "kerf/Dialect/Kerf/ShapeOps.td"
include "kerf/Dialect/Kerf/ContractionOps.td"
include "kerf/Dialect/Kerf/QuantizeOps.td"
include "kerf/Dialect/Kerf/CodecOps.td"
include "kerf/Dialect/Kerf/CompositeOps.td"
include "kerf/Dialect/Kerf/TakeAlongOps.td"
include "kerf/Dialect/Kerf/RoutingOps.td"
include "kerf/Dialect/Kerf/WindowOps.td"
include "kerf/Dialect/Kerf/TrainingOps.td"
include "kerf/Dialect/Kerf/DeviceOps.td"
#endif
