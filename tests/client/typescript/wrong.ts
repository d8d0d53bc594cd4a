// Mistakes that the types of the service must not accept.
import type { components, operations } from "./service.js";

type Start = operations["sessions.start"]["requestBody"]["content"]["application/json"];

// @ts-expect-error a session needs a program
export const without: Start = { arguments: {} };
// @ts-expect-error a priority is a number
export const priority: Start = { program: "review", arguments: {}, priority: "high" };
// @ts-expect-error there is no such verdict
export const verdict: operations["effects.settle"]["requestBody"]["content"]["application/json"] = { verdict: "maybe", because: "x" };

export function reason(problem: components["schemas"]["Problem"]): string {
  // @ts-expect-error a problem has a `detail`
  return problem.message;
}

export function kind(event: components["schemas"]["Event"]): string {
  // @ts-expect-error an event has a `kind`
  return event.type;
}
