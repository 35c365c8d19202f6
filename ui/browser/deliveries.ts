// Delivers a webhook, for tests of deliveries and of their jobs.

import { expect, type Server } from "./server";

interface Delivery {
  delivery_id: string;
  job_id: string;
}

/** Run a workflow whose action delivers a webhook, and return the first delivery, which is not a redelivery. */
export async function deliverWebhook(server: Server): Promise<Delivery> {
  await server.runToEnd("hooked");
  let delivery: Delivery | undefined;
  await expect
    .poll(async () => {
      delivery = (await server.get<{ items: Delivery[] }>("/deliveries?workflow_id=hooked")).items.at(-1);
      return delivery;
    })
    .toBeDefined();
  return delivery as Delivery;
}
