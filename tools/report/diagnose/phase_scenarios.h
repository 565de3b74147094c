// SPDX-License-Identifier: Apache-2.0
// Which scenario a request that failed in a phase is of.
#ifndef CT_PHASE_SCENARIOS_H
#define CT_PHASE_SCENARIOS_H

#include "diagnose/verdicts.h"
#include "symbols/phase_rules.h"

// The scenario of a phase, or of the component that was asked for where that makes the difference;
// CT_SCENARIO_UNKNOWN: no rule names one. *summary: one sentence without a full stop.
enum ct_scenario ct_phase_scenario(enum ct_phase phase, enum ct_component component,
                                   const char **summary);
// The scenario that a component names by itself, and its sentence; CT_SCENARIO_UNKNOWN: none.
enum ct_scenario ct_component_scenario(enum ct_component component, const char **summary);

#endif
