"""Workflows in the steps dialect with loops, pagination and sinks."""

PROCESS_USERS = """
- step: process_users
  tool: http
  url: "{{ api_url }}/process"
  loop:
    collection: "{{ users }}"
    element: user
    mode: async
    concurrency: 10
  sink:
    tool: postgres
    table: processed_users
    connection: main_db
"""
FETCH_PAGINATED_DATA = """
- step: fetch_paginated_data
  tool: http
  url: "{{ api_url }}/data"
  params:
    page: 1
    pageSize: 100
  retry:
    on_success:
      while: "{{ response.paging.hasMore }}"
      max_attempts: 100
      next_call:
        params:
          page: "{{ response.paging.page + 1 }}"
      collect: append
      merge_path: data
  sink:
    tool: postgres
    table: raw_data
    connection: main_db
    mode: append
"""
PROCESS_ITEMS = """
- step: process_items
  tool: python
  code: |
    def main(item):
      return item * 2
  loop:
    collection: "{{ items }}"
    element: item
"""
FETCH_DATA = """
- step: fetch_data
  tool: http
  url: "{{ api_url }}/data"
  retry:
    on_success:
      while: "{{ response.paging.hasMore }}"
      next_call:
        params:
          page: "{{ response.paging.page + 1 }}"
"""
FETCH_MULTIPLE_APIS = """
- step: fetch_multiple_apis
  tool: http
  url: "{{ endpoint }}/data"
  params:
    page: 1
  loop:
    collection: "{{ endpoints }}"
    element: endpoint
  retry:
    on_success:
      while: "{{ response.paging.hasMore }}"
      next_call:
        params:
          page: "{{ response.paging.page + 1 }}"
"""
PROCESS_BATCH = """
- step: process_batch
  tool: python
  code: "def main(item): return transform(item)"
  loop:
    collection: "{{ items }}"
    element: item
  sink:
    tool: postgres
    table: results
"""
FETCH_PAGES = """
- step: fetch_pages
  tool: http
  url: "{{ api }}/data"
  retry:
    on_success:
      while: "{{ response.hasMore }}"
  sink:
    tool: postgres
    table: raw_pages
    mode: append
"""
FETCH_ALL = """
- step: fetch_all
  tool: http
  url: "{{ endpoint }}/data"
  loop:
    collection: "{{ endpoints }}"
    element: endpoint
  retry:
    on_success:
      while: "{{ response.hasMore }}"
  sink:
    tool: postgres
    table: api_data
"""
STEPS = [
    PROCESS_USERS,
    FETCH_PAGINATED_DATA,
    PROCESS_ITEMS,
    FETCH_DATA,
    FETCH_MULTIPLE_APIS,
    PROCESS_BATCH,
    FETCH_PAGES,
    FETCH_ALL,
]
