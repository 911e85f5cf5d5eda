import { testWorstTurns } from "../../support/worst-requests.ts";

// Every parameter and field in every form that the limits let through.
testWorstTurns(() => true);
