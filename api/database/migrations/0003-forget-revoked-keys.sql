create index api_key_revoked_at on service.api_key (revoked_at) where revoked_at is not null;
alter table service.api_key_usage
  drop constraint api_key_usage_api_key_id_fkey,
  add constraint api_key_usage_api_key_id_fkey foreign key (api_key_id) references service.api_key on delete cascade;
comment on column service.api_key.revoked_at is 'Time of its revocation. A revoked key is deleted after 30 days, with its usage.';
