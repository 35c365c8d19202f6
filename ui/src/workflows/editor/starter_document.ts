// The document of a new workflow.

export const STARTER_DOCUMENT = `# A greeting, two branches, and a join.
workflow_id: my_workflow
description: Greets in two branches
input:
  type: object
  properties:
    name: {type: string, default: world}
nodes:
  greet:
    handler: echo
    params: {greeting: "Hello, {{ input.name }}"}
  left:
    handler: sleep
    dependencies: [greet]
    params: {seconds: 1}
  right:
    handler: echo
    dependencies: [greet]
    params: {said: "{{ greet.output.echoed_params.greeting }}"}
  join:
    handler: echo
    dependencies: [left, right]
    params: {done: true}
`;
