// What a new workflow begins with.

export const EXAMPLE = `# A greeting, two branches, and a join. Change it, deploy it, run it.
workflow_id: my_workflow
description: Greet somebody in two ways
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
