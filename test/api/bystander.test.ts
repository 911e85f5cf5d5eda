import { isHard, testWorstTurns } from "../support/worst-requests.ts";

// Every parameter and field in its hardest forms. test/slow/abuse/bystander.test.ts tries all forms, and
// test/slow/alone/bystander.test.ts measures what another client notices.
testWorstTurns(isHard);
